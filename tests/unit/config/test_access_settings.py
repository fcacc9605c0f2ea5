"""How a site says where Slurm's commands are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from relance.bootstrap.controllers import slurm_settings
from relance.config import SettingError, load_settings
from relance.config.settings import SlurmSchedulerSettings
from relance.controllers.slurm import SlurmSettings
from relance.controllers.slurm.settings import own_account
from relance.slurm.containers import Container
from relance.slurm.running import Commands
from relance.slurm.ssh import Ssh


def _slurm(tmp_path: Path, *schedulers: dict[str, object]) -> SlurmSettings:
    file = tmp_path / "relance.yaml"
    clusters = [
        {"name": f"c{number}", "scheduler": {"kind": "slurm", **each}} for number, each in enumerate(schedulers)
    ]
    file.write_text(yaml.safe_dump({"state_dir": str(tmp_path), "clusters": clusters}))
    cluster = load_settings(file, environment={}).clusters[0]
    assert isinstance(cluster.scheduler, SlurmSchedulerSettings)
    return slurm_settings(cluster, cluster.scheduler)


def test_without_a_word_the_commands_are_on_this_host_and_run_as_we_do(tmp_path: Path) -> None:
    settings = _slurm(tmp_path, {})
    assert (settings.commands, settings.account) == (Commands(), own_account())


def test_a_host_is_reached_by_ssh_and_says_itself_who_we_are_there(tmp_path: Path) -> None:
    access = {
        "kind": "ssh", "host": "login1", "user": "relance", "port": 2222, "key_file": "/etc/relance/key",
        "known_hosts": "/etc/relance/known_hosts", "script": "relance-slurm-b", "connect_timeout_s": 3,
    }  # fmt: skip
    settings = _slurm(tmp_path, {"access": access, "token_file": "/etc/relance/jwt"})
    way = Ssh(
        host="login1", user="relance", port=2222, key_file="/etc/relance/key",
        known_hosts="/etc/relance/known_hosts", script="relance-slurm-b", connect_timeout_s=3,
    )  # fmt: skip
    assert settings.commands == Commands(way=way, token_file="/etc/relance/jwt")
    assert settings.account is None
    options = dict(word.split("=", 1) for word in way.argv("x") if "=" in word)
    assert options["StrictHostKeyChecking"] == options["BatchMode"] == options["IdentitiesOnly"] == "yes"
    assert way.argv("relance-slurm-b")[-3:] == ("--", "login1", "relance-slurm-b")
    assert len(way.socket) < 80


def test_a_container_is_entered_by_a_prefix(tmp_path: Path) -> None:
    prefix = ["kubectl", "exec", "-i", "-n", "slurm", "login-0", "--"]
    settings = _slurm(tmp_path, {"access": {"kind": "container", "prefix": prefix}, "conf": "/etc/slurm/slurm.conf"})
    way = Container(prefix=tuple(prefix))
    assert settings.commands == Commands(slurm_conf="/etc/slurm/slurm.conf", way=way)
    assert settings.account is None


@pytest.mark.parametrize(
    ("scheduler", "says"),
    [
        ({"access": {"kind": "telnet"}}, "'ssh'"),
        ({"access": {"kind": "ssh"}}, "access.host"),
        ({"access": {"kind": "ssh", "host": "-oProxyCommand=id"}}, "access.host"),
        ({"access": {"kind": "ssh", "host": "a", "user": "-l"}}, "access.user"),
        ({"access": {"kind": "ssh", "host": "a", "script": "relance-slurm; id"}}, "access.script"),
        ({"access": {"kind": "ssh", "host": "a", "key_file": "id"}}, "not an absolute path"),
        ({"access": {"kind": "ssh", "host": "a", "connect_timeout_s": 60}}, "access.connect_timeout_s"),
        ({"access": {"kind": "ssh", "host": "a"}, "conf": "/etc/slurm.conf"}, "relance slurm-script --conf PATH"),
        ({"access": {"kind": "ssh", "host": "a"}, "bin_dir": "/opt/bin"}, "relance slurm-script --bin-dir PATH"),
        ({"access": {"kind": "container", "prefix": []}}, "access.prefix"),
        ({"access": {"kind": "container", "prefix": ["ssh", "a"]}}, "kind: ssh"),
        ({"access": {"kind": "container", "prefix": ["kubectl", "exec", "a", "--"]}}, "prefix needs -i"),
        ({"access": {"kind": "container", "prefix": ["/usr/bin/podman", "exec", "-it", "a"]}}, "take the terminal"),
        ({"token_file": "jwt"}, "not an absolute path"),
    ],
)
def test_what_cannot_work_is_refused_in_words(tmp_path: Path, scheduler: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        _slurm(tmp_path, scheduler)


def test_two_clusters_that_are_one_are_refused(tmp_path: Path) -> None:
    access = {"kind": "ssh", "host": "login1"}
    with pytest.raises(SettingError, match="two clusters have the scheduler"):
        _slurm(tmp_path, {"access": access}, {"access": access})
    _slurm(tmp_path, {"access": access}, {"access": {**access, "script": "relance-slurm-b"}})


def test_sockets_lie_in_a_folder_that_is_closed_to_others_and_made_anew_when_it_is_gone() -> None:
    way = Ssh(host="login1")
    folder = Path(way.socket).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert way.socket == Ssh(host="login1").socket != Ssh(host="login2").socket
    shutil.rmtree(folder)
    again = Path(way.socket).parent
    assert again != folder
    assert again.stat().st_mode & 0o777 == 0o700
