"""The watchdog's settings file, made of the main settings: the same clusters, folders and ways to Slurm."""

from __future__ import annotations

import json
from dataclasses import fields

from relance.bootstrap.controllers import slurm_settings
from relance.bootstrap.states import StateFolder
from relance.config import ClusterSettings, SettingError, Settings
from relance.config.settings import SlurmSchedulerSettings
from relance.slurm.containers import Container
from relance.slurm.running import Commands
from relance.slurm.ssh import Ssh

_HEAD = """\
# Settings of relance-watchdog, made by `relance watchdog-settings`; run it as the controller's user, on its host.
# At stage observe it only records what it would do.
# metrics_file = "/var/lib/prometheus/node-exporter/relance-watchdog.prom"
# metrics_port = 9474
"""


def watchdog_file(settings: Settings) -> str:
    """The file, TOML, with every cluster that has a Slurm. Raises SettingError where none has one."""
    if not settings.clusters:
        raise SettingError(
            "the settings name no cluster: say where they are with --config, or add one under `clusters`"
        )
    folder = StateFolder(path=settings.state_dir.absolute())
    tables = [_table(cluster, folder) for cluster in settings.clusters]
    found = [table for table in tables if table]
    if not found:
        raise SettingError("no cluster of the settings has a scheduler of kind slurm: there is nothing to watch over")
    return "\n".join((_HEAD, *found))


def _table(cluster: ClusterSettings, folder: StateFolder) -> str:
    if not isinstance(cluster.scheduler, SlurmSchedulerSettings):
        return ""
    given: dict[str, object] = {
        "name": cluster.name,
        "folder": str(folder.controller(cluster.name)),
        "stage": "observe",
        **_way(slurm_settings(cluster, cluster.scheduler).commands),
    }
    if cluster.scheduler.partitions:
        given["partitions"] = list(cluster.scheduler.partitions)
    return "\n".join(("[[clusters]]", *(f"{key} = {_value(value)}" for key, value in given.items()), ""))


def _way(commands: Commands) -> dict[str, object]:
    found: dict[str, object] = {
        "bin_dir": commands.bin_dir,
        "conf": commands.slurm_conf,
        "prefix": list(commands.prefix),
        "token_file": commands.token_file,
    }
    match commands.way:
        case Ssh() as ssh:
            found["ssh"] = {item.name: getattr(ssh, item.name) for item in fields(ssh) if getattr(ssh, item.name)}
        case Container() as container:
            found["container"] = list(container.prefix)
        case None:
            pass
    return {key: value for key, value in found.items() if value}


def _value(value: object) -> str:
    """A text, a number, a list or a table as TOML writes it; texts and lists are as in JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
