"""The watchdog's settings: a small file of its own, TOML or JSON, and a few flags. Times in seconds."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from relance.domain.stages import Stage
from relance.slurm.containers import Container
from relance.slurm.running import Commands
from relance.slurm.ssh import Ssh

EVERY_S = 5.0


class SettingsError(Exception):
    """The settings cannot be used. Says what is wrong and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When the watchdog does something about the jobs of one cluster, and how often. The defaults suit Slurm's own."""

    stage: Stage = Stage.OBSERVE
    """Below `act` it only records what it would have done."""
    partitions: tuple[str, ...] = ()
    """Whose jobs it may touch; empty (in the file: left out): all."""
    release_after_s: float = 60.0
    """A job that the controller holds is released when the controller has not gone on with it for so long."""
    margin_s: float = 60.0
    """A taken attempt is requeued so long before Slurm forgets it; never before half of MinJobAge has passed."""
    controller_silent_s: float = 60.0
    """A controller that has given no sign of life for so long carries nothing out any more."""
    ledger_max_age_s: float = 86400.0
    """Without a sign of life of the controller for so long nothing is done any more on its ledger's word."""
    per_job: int = 3
    """Requeues of one job, ever; of one attempt it is one."""
    per_hour: int = 10
    """Requeues of the whole cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCluster:
    """One cluster: where its controller's ledger lies, and how its scheduler is reached."""

    name: str
    folder: Path
    """The controller's state folder of this cluster: it holds `ledger.jsonl`."""
    commands: Commands = field(default_factory=Commands)
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogSettings:
    """The whole file."""

    clusters: tuple[WatchedCluster, ...]
    every_s: float = EVERY_S
    """From the begin of a round to the begin of the next."""
    metrics_file: Path | None = None
    """Written each round, for the text file collector of node_exporter."""
    metrics_port: int | None = None
    """Serves `/metrics` and `/healthz` on 127.0.0.1."""


_TOP = frozenset({"clusters", "every_s", "metrics_file", "metrics_port"})
_WAY = frozenset({"name", "folder", "bin_dir", "conf", "prefix", "ssh", "container", "token_file"})
_SSH = frozenset(item.name for item in fields(Ssh))
_RULES = frozenset(item.name for item in fields(Rules))
_MOST = 1e9
_LEAST = {"every_s": 0.2, "release_after_s": 1.0, "controller_silent_s": 1.0, "per_job": 0, "per_hour": 0}


def read_settings(path: Path) -> WatchdogSettings:
    """The settings in a file. Raises SettingsError."""
    try:
        text = path.read_text(encoding="utf-8")
        data: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path} is not {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from error
    try:
        return settings_of(data)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error


def settings_of(data: object) -> WatchdogSettings:
    """The settings in plain data. Raises SettingsError."""
    top = _table(data, "the settings", _TOP)
    tables = top.get("clusters", [])
    if not isinstance(tables, list) or not tables:
        raise SettingsError("name at least one cluster: [[clusters]] with name and folder")
    clusters = tuple(_cluster(_table(each, "a cluster", _WAY | _RULES)) for each in tables)
    for key in ("name", "folder"):
        known = [getattr(cluster, key) for cluster in clusters]
        if len(set(known)) < len(known):
            raise SettingsError(f"two clusters have the same {key}")
    file, port = top.get("metrics_file"), top.get("metrics_port")
    if port is not None and not (type(port) is int and 0 <= port < 1 << 16):
        raise SettingsError(f"metrics_port: not a port: {port!r}")
    return WatchdogSettings(
        clusters=clusters,
        every_s=_number(top, "every_s", EVERY_S) if "every_s" in top else EVERY_S,
        metrics_file=None if file is None else Path(_text(top, "metrics_file")),
        metrics_port=port,
    )


def at_stage(settings: WatchdogSettings, stage: Stage) -> WatchdogSettings:
    """The settings with every cluster at that stage, as a flag asks."""
    clusters = tuple(replace(item, rules=replace(item.rules, stage=stage)) for item in settings.clusters)
    return replace(settings, clusters=clusters)


def _cluster(table: dict[str, Any]) -> WatchedCluster:
    bin_dir, conf, token = (_text(table, key) if key in table else None for key in ("bin_dir", "conf", "token_file"))
    return WatchedCluster(
        name=_text(table, "name"),
        folder=Path(_text(table, "folder")),
        commands=Commands(
            bin_dir=bin_dir, slurm_conf=conf, prefix=_texts(table, "prefix"), way=_way(table), token_file=token
        ),
        rules=_rules(table),
    )


def _way(table: dict[str, Any]) -> Ssh | Container | None:
    """The host or container where Slurm's commands are."""
    if "ssh" in table and "container" in table:
        raise SettingsError("ssh and container: Slurm is reached by one of them")
    if "container" in table:
        return Container(prefix=_texts(table, "container"))
    if "ssh" not in table:
        return None
    given = _table(table["ssh"], "ssh", _SSH)
    _text(given, "host")
    kinds = {item.name: (int,) if item.name in ("port", "connect_timeout_s") else (str,) for item in fields(Ssh)}
    if wrong := [key for key, value in given.items() if type(value) not in kinds[key]]:
        raise SettingsError(f"ssh: not the right kind of value: {', '.join(wrong)}")
    return Ssh(**given)


def _rules(table: dict[str, Any]) -> Rules:
    given: dict[str, Any] = {}
    for item in fields(Rules):
        if item.name not in table:
            continue
        if item.name == "stage":
            given["stage"] = stage_of(table["stage"])
        elif item.name == "partitions":
            given["partitions"] = _texts(table, "partitions")
            if not given["partitions"]:
                raise SettingsError("partitions: an empty list serves nobody; leave it out to serve all")
        else:
            given[item.name] = _number(table, item.name, item.default)
    return Rules(**given)


def stage_of(word: object) -> Stage:
    """The stage of that name. Raises SettingsError."""
    try:
        return Stage(word)
    except ValueError:
        words = ", ".join(stage.value for stage in Stage)
        raise SettingsError(f"stage: not one of {words}: {word!r}") from None


def _table(data: object, what: str, known: frozenset[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise SettingsError(f"{what}: not a table: {data!r}")
    if unknown := sorted(set(data) - known):
        raise SettingsError(f"{what}: no such setting: {', '.join(unknown)} (known: {', '.join(sorted(known))})")
    return data


def _text(table: dict[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise SettingsError(f"{key}: a text is needed, not {value!r}")
    return value


def _texts(table: dict[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise SettingsError(f"{key}: a list of texts is needed, not {value!r}")
    return tuple(value)


def _number(table: dict[str, Any], key: str, default: object) -> float:
    """A number that is not below its least; whole where the default is."""
    value, least = table[key], _LEAST.get(key, 0)
    fits = type(value) is int or (type(value) is float and not isinstance(default, int))
    if not fits or not least <= value < _MOST:
        raise SettingsError(f"{key}: a number of at least {least} is needed, not {value!r}")
    return value if isinstance(default, int) else float(value)
