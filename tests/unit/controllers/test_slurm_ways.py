"""What is missing between us and Slurm: told apart from a Slurm that does not answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relance.controllers.slurm import SlurmSettings
from relance.controllers.slurm.own_jobs import SlurmOwnJobs
from relance.controllers.slurm.settings import own_account
from relance.controllers.slurm.wish_files import Place, read_file
from relance.ports.clocks import SystemClock
from relance.ports.schedulers import SchedulerRefusedError, SchedulerSilentError, SchedulerUnreachedError
from relance.slurm.containers import Container
from relance.slurm.running import Commands
from relance.slurm.ssh import Ssh
from tests.unit.controllers.fake_slurm import FakeSlurm
from tests.unit.slurm.test_tokens import HOUR_S, jwt, written


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    made = FakeSlurm(tmp_path)
    made.put("glances.txt", b"")
    return made


async def test_a_container_that_cannot_be_entered_is_a_lost_connection(slurm: FakeSlurm) -> None:
    gone = Commands(bin_dir=str(slurm.folder), way=Container(prefix=("sh", "-c", "echo no such pod >&2; exit 1")))
    scheduler = slurm.scheduler(commands=gone, account=None)
    with pytest.raises(SchedulerUnreachedError, match="cannot be entered") as raised:
        await scheduler.look()
    assert raised.value.way == "connection"
    with pytest.raises(SchedulerUnreachedError):
        await scheduler.read("12")
    await scheduler.close()


async def test_a_slurm_that_does_not_answer_is_no_lost_connection(slurm: FakeSlurm) -> None:
    slurm.program("scontrol", "echo Unable to contact slurm controller >&2; exit 1")
    scheduler = slurm.scheduler()
    with pytest.raises(SchedulerSilentError) as raised:
        await scheduler.look()
    assert not isinstance(raised.value, SchedulerUnreachedError)
    await scheduler.close()


async def test_a_token_that_has_expired_is_not_used_and_one_that_will_is_told(slurm: FakeSlurm, tmp_path: Path) -> None:
    now_s = SystemClock().now().timestamp()
    token = written(tmp_path, jwt(iat=now_s - 9 * HOUR_S, exp=now_s - 1))
    commands = Commands(bin_dir=str(slurm.folder), token_file=token)
    scheduler = slurm.scheduler(commands=commands)
    with pytest.raises(SchedulerUnreachedError, match=f"has expired.*write a new one into {token}") as raised:
        await scheduler.look()
    assert raised.value.way == "token"
    assert slurm.calls("scontrol") == slurm.calls("squeue") == []
    written(tmp_path, jwt(iat=now_s - 9 * HOUR_S, exp=now_s + 0.5 * HOUR_S))
    (soon,) = (await scheduler.look()).facts.impairments
    assert (soon.name, soon.is_ahead, "good until" in soon.reason) == ("token", True, True)
    written(tmp_path, jwt(iat=now_s, exp=now_s + 10 * HOUR_S))
    assert (await scheduler.look()).facts.impairments == ()
    await scheduler.close()


async def test_over_ssh_no_job_is_submitted_and_it_is_said_where_to() -> None:
    settings = SlurmSettings(cluster="alpha", commands=Commands(way=Ssh(host="login1")))
    with pytest.raises(SchedulerRefusedError, match="run this on login1"):
        await SlurmOwnJobs(settings).submit_by(("sbatch", "--wrap=true"))


async def test_a_folder_that_is_not_here_may_have_its_owner_s_file_where_the_cluster_is_elsewhere(
    tmp_path: Path,
) -> None:
    gone = Place(work_dir=str(tmp_path / "gone"), owner_uid=1, is_elsewhere=True)
    found = read_file(gone)
    assert isinstance(found, str)
    assert "is not on this host" in found
    assert read_file(replace(gone, is_elsewhere=False)) is None
    assert read_file(replace(gone, work_dir=str(tmp_path))) is None


async def test_where_commands_run_elsewhere_that_side_says_who_we_are(slurm: FakeSlurm) -> None:
    commands = Commands(bin_dir=str(slurm.folder), way=Container(prefix=("env", "-i", "PATH=/usr/bin:/bin")))
    scheduler = slurm.scheduler(commands=commands, account=None)
    await scheduler.look()
    assert {f"name={own_account()[0]} " in asked for asked in slurm.calls("sacctmgr")} == {True}
    await scheduler.close()
