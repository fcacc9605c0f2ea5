"""Commands behind a prefix: Slurm's answers told from the prefix's own words, and its end here from its end there."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from relance.controllers.slurm.accesses import accesses
from relance.ports.clocks import SystemClock
from relance.slurm import commands
from relance.slurm.containers import Container
from relance.slurm.errors import RefusedError, SilentError, UnreachedError
from relance.slurm.outputs import CONNECTION, Output
from relance.slurm.parsing.replies import checked
from relance.slurm.running import Commands, run
from tests.integration.access.stands import HOLD, Stand, is_gone, once_run, until

LIMIT_S = 20.0
CLEAN = ("env", "-i", "PATH=/usr/bin:/bin", "SQUEUE_FORMAT=%i", "SLURM_CLUSTERS=other", "SLURM_TIME_FORMAT=relative")
NOISE = 'echo "Defaulted container slurmctld"; echo "Permission denied" >&2; exec "$@"'


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path / "bin")


def behind(stand: Stand, *prefix: str) -> Commands:
    way = Container(prefix=prefix or CLEAN)
    return Commands(bin_dir=str(stand.folder), slurm_conf="/etc/b.conf", way=way)


async def ask(
    run_by: Commands, argv: tuple[str, ...] = commands.settings(), limit_s: float = LIMIT_S, most: int = 1 << 20
) -> Output:
    return await run(run_by, argv, time_limit_s=limit_s, max_output_bytes=most)


async def test_a_command_gets_what_gives_its_answer_one_form_and_nothing_that_changes_it(
    stand: Stand, tmp_path: Path
) -> None:
    stand.has("scontrol", "env; tr '\\000' ' ' < /proc/$PPID/cmdline; tr '\\000' ' ' < /proc/$$/cmdline")
    token = tmp_path / "token"
    token.write_text("SLURM_JWT=aaaa.bbbb.cccc\n")
    token.chmod(0o600)
    got = await ask(replace(behind(stand), token_file=str(token)))
    seen = dict(line.split("=", 1) for line in got.stdout.decode().splitlines() if "=" in line)
    for name in ("PWD", "OLDPWD", "SHLVL", "_"):
        seen.pop(name, None)
    assert seen == {
        "PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "SLURM_CONF": "/etc/b.conf",
        "SLURM_JWT": "aaaa.bbbb.cccc",
    }  # fmt: skip
    assert got.stdout.count(b"aaaa.bbbb.cccc") == 1
    assert got.account is not None
    assert got.account[1] == os.geteuid()


async def test_outputs_come_back_byte_for_byte_and_without_the_prefix_s_words(stand: Stand) -> None:
    stand.has("scontrol", "printf 'a\\000\\377 no end'; printf 'err\\n' >&2; exit 3")
    got = await ask(behind(stand, "sh", "-c", NOISE, "sh", *CLEAN))
    assert (got.exit_code, got.stdout, got.stderr) == (3, b"a\0\xff no end", "err\n")
    with pytest.raises(RefusedError):
        checked(got)


def test_it_is_the_same_on_the_loop_that_the_roles_run_on(stand: Stand) -> None:
    stand.has("scontrol", "echo fine; exit 3")
    stand.has("scancel", HOLD)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        got = runner.run(ask(behind(stand)))
        assert (got.exit_code, got.stdout) == (3, b"fine\n")
        got = runner.run(once_run(lambda: ask(behind(stand), commands.cancel("12"), limit_s=2.0)))
        assert (got.exit_code, got.may_have_acted) == (None, True)
        assert is_gone(stand.begun()) or not stand.is_done()
        got = runner.run(ask(behind(stand, "false")))
        assert (got.never_ran, got.unreached) == (True, CONNECTION)


async def test_arguments_reach_the_command_as_they_are(stand: Stand) -> None:
    stand.has("scontrol", 'printf "%s|" "$@"')
    words = ("$(id)", "a b", "'", '"', "-M", "*", "`id`", "x\ny")
    assert (await ask(behind(stand), ("scontrol", *words))).stdout.decode().split("|") == [*words, ""]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo 'Error from server (NotFound): pods \"login-0\" not found' >&2; exit 1", "see that it exists"),
        ("echo 'error: unable to upgrade connection: pod does not exist' >&2; exit 1", "its kubelet is up"),
        ("echo 'Error: can only create exec sessions on running containers' >&2; exit 255", "exec sessions"),
        ("exit 126", "ended with 126"),
    ],
)
async def test_a_prefix_that_does_not_enter_is_not_slurm_that_refuses(stand: Stand, line: str, words: str) -> None:
    got = await ask(behind(stand, "sh", "-c", line))
    assert (got.never_ran, got.may_have_acted, got.unreached) == (True, False, CONNECTION)
    with pytest.raises(UnreachedError, match=words):
        checked(got)


async def test_a_prefix_or_a_command_that_is_not_there_never_ran(stand: Stand) -> None:
    got = await ask(behind(stand, "/nowhere/kubectl", "exec"))
    assert (got.never_ran, got.unreached) == (True, CONNECTION)
    got = await ask(behind(stand))
    assert (got.never_ran, got.unreached) == (True, "")
    with pytest.raises(SilentError, match="Cannot start"):
        checked(got)


async def test_a_prefix_that_ends_after_the_greeting_leaves_it_open_what_was_done(stand: Stand) -> None:
    stand.has("scancel", HOLD)
    # It hands no input on, so that the command never begins; that cannot be known here.
    got = await ask(behind(stand, "sh", "-c", '"$@" </dev/null', "sh", *CLEAN), commands.cancel("12"))
    assert (got.never_ran, got.may_have_acted, got.unreached) == (False, True, CONNECTION)
    with pytest.raises(UnreachedError, match="was lost after the command was handed over"):
        checked(got)
    assert not (stand.folder / "begun").exists()


async def test_a_command_that_outlives_its_prefix_is_ended_inside_at_its_limit(stand: Stand, tmp_path: Path) -> None:
    """As with `kubectl exec`: what was killed here goes on there."""
    stand.has("scancel", HOLD)
    detach = f'echo $$ > {tmp_path}/prefix; exec 3<&0; setsid "$@" <&3 & wait'
    asked = asyncio.create_task(ask(behind(stand, "sh", "-c", detach, "sh", *CLEAN), commands.cancel("12"), 6.0))
    inside = await asyncio.to_thread(stand.begun)
    os.kill(int((tmp_path / "prefix").read_text()), signal.SIGKILL)
    got = await asked
    assert (got.never_ran, got.may_have_acted) == (False, True)
    await asyncio.to_thread(until, lambda: is_gone(inside), "the command to be ended inside")
    assert not stand.is_done()


async def test_a_command_that_hangs_is_ended_at_its_limit(stand: Stand) -> None:
    stand.has("scontrol", HOLD)
    got = await once_run(lambda: ask(behind(stand), limit_s=2.5))
    assert (got.exit_code, got.may_have_acted, got.unreached) == (None, True, "")
    await asyncio.to_thread(until, lambda: is_gone(stand.begun()), "the command to be ended")


async def test_an_answer_without_end_is_given_up(stand: Stand) -> None:
    stand.has("squeue", "exec yes")
    got = await ask(behind(stand), commands.all_jobs(), most=100_000)
    assert (got.exit_code, got.may_have_acted) == (None, True)


async def test_the_check_says_whether_it_is_entered_and_what_is_missing_inside(stand: Stand) -> None:
    levels = {each.name: each.level.value for each in await accesses(behind(stand), SystemClock())}
    assert levels == {"access": "ok", "files": "ok"}
    for name in ("sh", "env", "id", "date", "sed"):
        (stand.folder / name).symlink_to(shutil.which(name) or "")
    bare = behind(stand, shutil.which("env") or "env", "-i", f"PATH={stand.folder}")
    found = next(each for each in await accesses(bare, SystemClock()) if each.name == "access")
    assert (found.level.value, "no `timeout` inside" in found.text) == ("blocks_act", True)
    stand.has("scontrol", "echo fine")
    assert "put coreutils into the image" in (await ask(bare)).lacks
    assert (await ask(behind(stand))).lacks == ""
    found = next(each for each in await accesses(behind(stand, "false"), SystemClock()) if each.name == "access")
    assert found.level.value == "blocks_observe"
