from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from relance.bootstrap.watchdog_files import watchdog_file
from relance.cli.main import main
from relance.config import SettingError, Settings
from relance.domain.stages import Stage
from relance.slurm.containers import Container
from relance.slurm.running import Commands
from relance.slurm.ssh import Ssh
from relance.watchdog.settings import settings_of

ENTER = ["podman", "exec", "-i", "c"]


def _settings(state: Path, *clusters: dict[str, object]) -> Settings:
    return Settings.model_validate({"state_dir": state, "clusters": list(clusters)})


def test_the_watchdog_reads_the_file_and_finds_clusters_folders_and_ways_as_the_controller_does(tmp_path: Path) -> None:
    text = watchdog_file(
        _settings(
            tmp_path,
            {
                "name": "alpha",
                "scheduler": {
                    "kind": "slurm",
                    "bin_dir": "/opt/slurm/bin",
                    "conf": "/etc/a.conf",
                    "partitions": ["gpu"],
                },
            },
            {
                "name": "beta",
                "scheduler": {"kind": "slurm", "access": {"kind": "ssh", "host": "login1", "user": "relance"}},
            },
            {
                "name": "gamma",
                "scheduler": {
                    "kind": "slurm",
                    "access": {"kind": "container", "prefix": ["podman", "exec", "-i", "c"]},
                },
            },
            {"name": "delta", "scheduler": {"kind": "local", "state_dir": str(tmp_path / "local")}},
        )
    )
    alpha, beta, gamma = settings_of(tomllib.loads(text)).clusters
    assert alpha.commands == Commands(bin_dir="/opt/slurm/bin", slurm_conf="/etc/a.conf")
    assert (alpha.folder, alpha.rules.partitions) == (tmp_path / "controllers" / "alpha", ("gpu",))
    assert alpha.rules.stage is Stage.OBSERVE
    assert isinstance(beta.commands.way, Ssh)
    assert (beta.commands.way.host, beta.commands.way.user) == ("login1", "relance")
    assert gamma.commands.way == Container(prefix=tuple(ENTER))


def test_without_a_slurm_there_is_nothing_to_watch_over(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="nothing to watch over"):
        watchdog_file(_settings(tmp_path, {"name": "alpha"}))
    with pytest.raises(SettingError, match="--config"):
        watchdog_file(_settings(tmp_path))


def test_the_verb_prints_the_file(tmp_path: Path) -> None:
    config = tmp_path / "relance.yaml"
    config.write_text(
        f"state_dir: {tmp_path}\nclusters:\n  - name: alpha\n    scheduler: {{kind: slurm}}\n", encoding="utf-8"
    )
    done = CliRunner().invoke(main, ["watchdog-settings", "--config", str(config)])
    assert done.exit_code == 0
    assert settings_of(tomllib.loads(done.output)).clusters[0].name == "alpha"
