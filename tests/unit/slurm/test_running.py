from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from relance.slurm.errors import RefusedError, SilentError, UnknownJobError
from relance.slurm.parsing.replies import checked
from relance.slurm.running import Commands, Output, new_mark, run
from tests.unit.slurm.recorded import RELEASES, recorded

PLAIN = Commands()


def python(source: str) -> tuple[str, ...]:
    return (sys.executable, "-c", source)


def output(**fields: object) -> Output:
    plain: dict[str, object] = {
        "argv": ("/usr/bin/scontrol",),
        "exit_code": 0,
        "stdout": b"",
        "stderr": "",
        "wall_s": 0.1,
    }
    return Output(**(plain | fields))  # type: ignore[arg-type]


async def test_a_command_gets_only_what_gives_its_answer_one_form() -> None:
    ours = {
        "PATH": os.environ["PATH"], "SQUEUE_FORMAT": "%i", "SACCT_FORMAT": "JobID", "SLURM_TIME_FORMAT": "relative",
        "TZ": "Asia/Tokyo", "LANG": "de_DE", "SLURM_CONF": "/etc/a.conf", "SLURM_CLUSTERS": "other", "SECRET": "x",
    }  # fmt: skip
    commands = Commands(slurm_conf="/etc/b.conf")
    got = await run(commands, python("import os; print(sorted(os.environ.items()))"), time_limit_s=30, ours=ours)
    seen = dict(eval(got.stdout))  # noqa: S307 - what our own line printed
    seen.pop("LC_CTYPE", None)
    assert seen == {
        "PATH": ours["PATH"], "SLURM_CONF": "/etc/b.conf", "LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s",
    }  # fmt: skip


async def test_the_end_of_a_command_is_told() -> None:
    got = await run(
        PLAIN, python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), time_limit_s=30
    )
    assert (got.exit_code, got.stdout, got.stderr, got.gave_up) == (3, b"out\n", "err\n", None)
    assert got.wall_s > 0
    assert not got.may_have_acted


async def test_a_command_that_does_not_end_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    source = (
        "import os, subprocess, time; p = subprocess.Popen(['sleep', '600']);"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(p.pid)); time.sleep(600)"
    )
    got = await run(PLAIN, python(source), time_limit_s=1.5)
    assert got.gave_up == "no answer within 1.5 s"
    assert (got.exit_code, got.may_have_acted) == (None, True)
    assert await ended(int((tmp_path / "child").read_text()))


async def test_a_command_whose_caller_gives_up_is_killed(tmp_path: Path) -> None:
    child = tmp_path / "child"
    source = f"import os, time; open({str(child)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    running = asyncio.create_task(run(PLAIN, python(source), time_limit_s=600))
    for _ in range(1000):
        if child.exists() and child.read_text():
            break
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await ended(int(child.read_text()))


async def test_an_answer_without_end_is_given_up() -> None:
    source = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    got = await run(PLAIN, python(source), time_limit_s=60, max_output_bytes=1 << 20)
    assert got.gave_up == "an answer of more than 1048576 bytes"
    assert len(got.stdout) <= 1 << 20


async def test_complaints_without_end_are_cut_and_do_not_block() -> None:
    got = await run(PLAIN, python("import sys; sys.stderr.write('x' * 10_000_000); print('done')"), time_limit_s=60)
    assert (got.exit_code, got.stdout, len(got.stderr)) == (0, b"done\n", 65_536)


async def test_a_command_that_is_not_there_never_ran() -> None:
    got = await run(Commands(bin_dir="/nowhere/"), ("squeue", "--json"), time_limit_s=5)
    assert (got.argv, got.never_ran, got.may_have_acted) == (("/nowhere/squeue", "--json"), True, False)
    with pytest.raises(SilentError, match="Cannot start /nowhere/squeue"):
        checked(got)


def test_behind_a_prefix_the_settings_travel_in_the_command() -> None:
    commands = Commands(bin_dir="/opt/slurm/bin", slurm_conf="/etc/s.conf", prefix=("enter", "box"))
    assert commands.argv(("squeue", "--json")) == (
        "enter", "box", "env", "LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=%s", "SLURM_CONF=/etc/s.conf",
        "/opt/slurm/bin/squeue", "--json",
    )  # fmt: skip


def test_no_two_marks_are_alike() -> None:
    assert len({new_mark() for _ in range(100)}) == 100


@pytest.mark.parametrize("release", RELEASES)
def test_refusals_of_each_release(release: str) -> None:
    told: dict[str, str] = {}
    for block in recorded(release, "refusals.txt").decode().split("### ")[1:]:
        command, *said, exit_line = block.rstrip("\n").split("\n")
        got = output(exit_code=int(exit_line.removeprefix("exit ")), stderr="\n".join(said))
        try:
            checked(got)
        except (RefusedError, UnknownJobError, SilentError) as error:
            told[command] = type(error).__name__
        else:
            told[command] = "done"
    assert told.pop("scontrol requeuehold 999999") == "UnknownJobError"
    assert told.pop("scontrol update JobId=1 ExcNodeList=gpu001") == "done"
    assert set(told.values()) == {"RefusedError"}
    assert len(told) == 8


@pytest.mark.parametrize(
    "said",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "squeue: error: fetch_config: DNS SRV lookup failed\nsqueue: fatal: Could not establish a configuration source",
        "slurm_update error: Socket timed out on send/recv operation",
        "sacct: error: Problem talking to the database: Connection refused",
        "slurm_load_jobs error: Slurm backup controller in standby mode",
        "slurm_load_jobs error: Protocol authentication error",
        "slurm_load_jobs error: Zero Bytes were transmitted or received",
    ],
)
@pytest.mark.parametrize("exit_code", [0, 1])
def test_no_answer_is_not_a_refusal(said: str, exit_code: int) -> None:
    with pytest.raises(SilentError):
        checked(output(exit_code=exit_code, stderr=said))


def test_a_killed_command_is_no_answer() -> None:
    with pytest.raises(SilentError, match="signal 9"):
        checked(output(exit_code=-9))
    with pytest.raises(SilentError, match="no answer within 10 s"):
        checked(output(exit_code=None, gave_up="no answer within 10 s"))


def test_a_slurmctld_that_is_down_gives_no_answer() -> None:
    with pytest.raises(SilentError):
        checked(output(exit_code=1, stdout=b"Slurmctld(primary) at head is DOWN\n"))


def test_an_error_names_slurms_command_and_not_what_stands_before_it() -> None:
    with pytest.raises(RefusedError, match=r"^scontrol was refused: no$"):
        checked(output(argv=("setpriv", "--", "env", "A=1", "/opt/bin/scontrol", "ping"), exit_code=1, stderr="no"))


def test_a_refusal_on_standard_output_is_one() -> None:
    with pytest.raises(RefusedError, match="Reservation nope not found"):
        checked(output(exit_code=1, stdout=b"Reservation nope not found\n"))


async def ended(pid: int) -> bool:
    """Whether a process ends within ten seconds; one that nobody has reaped yet has ended."""
    for _ in range(500):
        if has_ended(pid):
            return True
        await asyncio.sleep(0.02)
    return False


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
