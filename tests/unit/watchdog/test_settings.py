from __future__ import annotations

import json
from pathlib import Path

import pytest

from relance.domain.stages import Stage
from relance.slurm.containers import Container
from relance.slurm.running import Commands
from relance.slurm.ssh import Ssh
from relance.watchdog.main import main
from relance.watchdog.settings import Rules, SettingsError, WatchedCluster, at_stage, read_settings, settings_of

SMALL = '[[clusters]]\nname = "alpha"\nfolder = "/var/lib/relance/controllers/alpha"\n'
WHOLE = """
every_s = 2
metrics_file = "/var/lib/node_exporter/relance.prom"
metrics_port = 9474

[[clusters]]
name = "alpha"
folder = "/state/alpha"
bin_dir = "/opt/slurm/bin"
conf = "/etc/slurm/slurm.conf"
stage = "act"
partitions = ["gpu"]
release_after_s = 30
per_hour = 5

[[clusters]]
name = "beta"
folder = "/state/beta"
token_file = "/etc/relance/token"
ssh = {host = "login1", user = "relance", port = 2222}
"""


def test_a_cluster_and_its_folder_are_enough_and_it_only_observes(tmp_path: Path) -> None:
    path = tmp_path / "watchdog.toml"
    path.write_text(SMALL)
    (cluster,) = read_settings(path).clusters
    assert cluster == WatchedCluster(name="alpha", folder=Path("/var/lib/relance/controllers/alpha"))
    assert cluster.rules.stage is Stage.OBSERVE


def test_everything_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "watchdog.toml"
    path.write_text(WHOLE)
    settings = read_settings(path)
    assert (settings.every_s, settings.metrics_port) == (2.0, 9474)
    alpha, beta = settings.clusters
    assert alpha.commands == Commands(bin_dir="/opt/slurm/bin", slurm_conf="/etc/slurm/slurm.conf")
    assert alpha.rules == Rules(stage=Stage.ACT, partitions=("gpu",), release_after_s=30.0, per_hour=5)
    assert beta.commands == Commands(way=Ssh(host="login1", user="relance", port=2222), token_file="/etc/relance/token")


def test_json_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "watchdog.json"
    path.write_text(
        json.dumps({"clusters": [{"name": "a", "folder": "/a", "container": ["podman", "exec", "-i", "c"]}]})
    )
    (cluster,) = read_settings(path).clusters
    assert cluster.commands.way == Container(prefix=("podman", "exec", "-i", "c"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "at least one cluster"),
        ([], "not a table"),
        ({"clusters": [{"name": "a"}]}, "folder"),
        ({"clusters": [{"name": "a", "folder": "/a", "stgae": "act"}]}, "stgae"),
        ({"clusters": [{"name": "a", "folder": "/a", "stage": "go"}]}, "not one of off, observe, approve, act"),
        ({"clusters": [{"name": "a", "folder": "/a", "partitions": "gpu"}]}, "list of texts"),
        ({"clusters": [{"name": "a", "folder": "/a", "partitions": []}]}, "an empty list serves nobody"),
        ({"clusters": [{"name": "a", "folder": "/a", "per_job": 2.5}]}, "per_job"),
        ({"clusters": [{"name": "a", "folder": "/a", "margin_s": -1}]}, "margin_s"),
        ({"clusters": [{"name": "a", "folder": "/a", "margin_s": True}]}, "margin_s"),
        ({"clusters": [{"name": "a", "folder": "/a"}, {"name": "a", "folder": "/b"}]}, "same name"),
        ({"clusters": [{"name": "a", "folder": "/a"}, {"name": "b", "folder": "/a"}]}, "same folder"),
        ({"clusters": [{"name": "a", "folder": "/a", "ssh": {"user": "x"}}]}, "host"),
        ({"clusters": [{"name": "a", "folder": "/a", "ssh": {"host": "x", "port": "22"}}]}, "port"),
        ({"clusters": [{"name": "a", "folder": "/a", "ssh": {"host": "x"}, "container": ["c"]}]}, "one of them"),
        ({"clusters": [{"name": "a", "folder": "/a"}], "metrics_port": 70000}, "not a port"),
        ({"clusters": [{"name": "a", "folder": "/a"}], "every_s": 0}, "every_s"),
    ],
)
def test_what_is_wrong_is_said(data: object, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings_of(data)


def test_a_flag_sets_the_stage_of_all_clusters(tmp_path: Path) -> None:
    path = tmp_path / "watchdog.toml"
    path.write_text(WHOLE)
    stages = {cluster.rules.stage for cluster in at_stage(read_settings(path), Stage.OBSERVE).clusters}
    assert stages == {Stage.OBSERVE}


@pytest.mark.parametrize("text", [None, "clusters = [", "[[clusters]]\nname = 3\n"])
def test_settings_that_cannot_be_used_end_it_with_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    path = tmp_path / "watchdog.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main([str(path)])
    assert ended.value.code == 2
    assert str(path) in capsys.readouterr().err


def test_the_settings_can_be_checked_without_watching(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "watchdog.toml"
    path.write_text(WHOLE)
    with pytest.raises(SystemExit) as ended:
        main([str(path), "--check", "--stage", "approve"])
    assert ended.value.code == 0
    assert "alpha: stage approve, ledger in /state/alpha, partitions gpu" in capsys.readouterr().out
