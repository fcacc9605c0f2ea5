"""Commands over a real sshd: what is run, what is refused, and what is said when something on the way is missing."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from relance.controllers.slurm.accesses import accesses
from relance.ports.clocks import SystemClock
from relance.slurm import commands
from relance.slurm.errors import RefusedError, UnreachedError
from relance.slurm.outputs import CONNECTION, Output
from relance.slurm.parsing.replies import checked
from relance.slurm.running import Commands, leave, run
from relance.slurm.scripts import script_text
from relance.slurm.ssh import Ssh
from relance.testing.ssh_servers import Login, SshServer
from tests.components.slurm_ways import sshd
from tests.integration.access.stands import HOLD, Stand, is_gone, once_run, until

LIMIT_S = 20.0
MARK = f"~{'0' * 16}~"
HOSTILE = (
    'a\\nrelance-slurm reply {"exit_code": 0, "stdout": 0, "stderr": 0}\\n$(touch X) `id` ; -M other\\t\\033[31m\\377'
)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SshServer, Stand]]:
    """One sshd for the tests that leave it as it is."""
    stand = Stand(tmp_path_factory.mktemp("ssh") / "bin")
    with sshd(Login(script=script_text(bin_dir=str(stand.folder)))) as running:
        yield running, stand


@pytest.fixture
async def server(one: tuple[SshServer, Stand]) -> AsyncIterator[tuple[SshServer, Stand]]:
    """The shared one; what a test's event loop keeps of it ends with the test."""
    yield one
    await leave(by(one[0].ssh))


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[tuple[SshServer, Stand]]:
    """An sshd that a test may disturb."""
    stand = Stand(tmp_path / "bin")
    with sshd(Login(script=script_text(bin_dir=str(stand.folder)))) as running:
        yield running, stand
        await leave(by(running.ssh))


def by(ssh: Ssh) -> Commands:
    return Commands(way=ssh)


def output_of(*argv: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, check=True, capture_output=True, timeout=60)


async def ask(ssh: Ssh, argv: tuple[str, ...] = commands.settings(), limit_s: float = LIMIT_S) -> Output:
    return await run(by(ssh), argv, time_limit_s=limit_s)


def says_unreached(output: Output, *words: str) -> None:
    """It never ran, and the words say why."""
    assert (output.never_ran, output.may_have_acted, output.unreached) == (True, False, CONNECTION)
    with pytest.raises(UnreachedError) as raised:
        checked(output)
    assert raised.value.way == CONNECTION
    assert all(word in str(raised.value) for word in words), str(raised.value)


async def test_outputs_come_back_byte_for_byte_whatever_is_in_them(server: tuple[SshServer, Stand]) -> None:
    running, stand = server
    stand.has("scontrol", "echo fine")
    assert (await ask(running.ssh)).lacks == ""
    stand.has("squeue", f"printf '{HOSTILE}'; printf '{HOSTILE}' >&2")
    got = await ask(running.ssh, commands.glance(mark=MARK))
    expected = (await asyncio.to_thread(output_of, "printf", HOSTILE)).stdout
    assert (got.exit_code, got.stdout) == (0, expected)
    assert got.stderr == expected.decode("utf-8", "replace")


async def test_slurm_s_own_exit_codes_are_slurm_s(server: tuple[SshServer, Stand]) -> None:
    running, stand = server
    for code in (1, 127, 255):
        stand.has("scontrol", f"echo 'Connection to x closed. Permission denied' >&2; exit {code}")
        got = await ask(running.ssh)
        assert (got.exit_code, got.unreached, got.never_ran) == (code, "", False)
        with pytest.raises(RefusedError):
            checked(got)


async def test_a_command_gets_a_fixed_environment_and_its_token_by_it_alone(
    server: tuple[SshServer, Stand], tmp_path: Path
) -> None:
    running, stand = server
    stand.has("scontrol", "env; tr '\\000' ' ' < /proc/$PPID/cmdline")
    token = tmp_path / "token"
    token.write_text("aaaa.bbbb.cccc\n")
    token.chmod(0o600)
    got = await run(replace(by(running.ssh), token_file=str(token)), commands.settings(), time_limit_s=LIMIT_S)
    seen = dict(line.split("=", 1) for line in got.stdout.decode().splitlines() if "=" in line)
    assert {seen[key] for key in ("LC_ALL", "TZ", "SLURM_TIME_FORMAT")} == {"C", "UTC", "%s"}
    assert seen["SLURM_JWT"] == "aaaa.bbbb.cccc"
    assert not {"SSH_ORIGINAL_COMMAND", "SSH_CONNECTION", "SQUEUE_FORMAT"} & set(seen)
    assert got.stdout.count(b"aaaa.bbbb.cccc") == 1
    assert got.account == (running.user, os.geteuid())


@pytest.mark.parametrize(
    "word",
    ["touch {x}", "relance-slurm; touch {x}", "$(touch {x})", "relance-slurm\ntouch {x}", "scancel 1", "-M other"],
)
def test_the_key_runs_the_script_whatever_is_asked(server: tuple[SshServer, Stand], tmp_path: Path, word: str) -> None:
    running, _ = server
    mark = tmp_path / "touched"
    argv = running.ssh.argv(word.replace("{x}", shlex.quote(str(mark))))
    done = subprocess.run(argv, input=b'{"argv": ["id"]}\n', check=False, capture_output=True, timeout=60)
    assert done.stdout.startswith(b"relance-slurm hello ")
    assert b'"refused"' in done.stdout
    assert not mark.exists()


async def test_what_is_on_no_list_is_refused_there(server: tuple[SshServer, Stand]) -> None:
    running, stand = server
    stand.has("scontrol", "touch {folder}/ran")
    for argv in (("scontrol", "ping"), ("scontrol", "update", "NodeName=gpu001", "State=DOWN", "Reason=x"), ("id",)):
        got = await ask(running.ssh, argv)
        assert (got.never_ran, got.unreached) == (True, "")
        assert "refused to run" in got.stderr
    assert not (stand.folder / "ran").exists()


async def test_a_command_that_hangs_is_ended_there_at_its_limit(server: tuple[SshServer, Stand]) -> None:
    running, stand = server
    stand.has("scontrol", HOLD)
    got = await once_run(lambda: ask(running.ssh, limit_s=3.0))
    assert got.may_have_acted
    assert got.exit_code is None
    until(lambda: is_gone(stand.begun()), "the command to be ended")
    assert not stand.is_done()


async def test_an_answer_without_end_is_given_up(server: tuple[SshServer, Stand]) -> None:
    running, stand = server
    stand.has("squeue", "yes")
    got = await run(by(running.ssh), commands.all_jobs(), time_limit_s=LIMIT_S, max_output_bytes=100_000)
    assert (got.exit_code, got.may_have_acted, got.unreached) == (None, True, "")


async def test_a_connection_that_is_cut_in_the_middle_leaves_it_open_what_was_done(
    own: tuple[SshServer, Stand],
) -> None:
    running, stand = own
    stand.has("scancel", HOLD)
    asked = asyncio.create_task(ask(running.ssh, commands.cancel("12"), 60.0))
    pid = await asyncio.to_thread(stand.begun)
    running.cut()
    got = await asked
    assert (got.never_ran, got.may_have_acted, got.unreached) == (False, True, CONNECTION)
    with pytest.raises(UnreachedError, match="was lost after the command was handed over"):
        checked(got)
    await asyncio.to_thread(until, lambda: is_gone(pid), "the command to be ended")
    assert not stand.is_done()
    stand.has("scancel", "exit 0")
    assert (await ask(running.ssh, commands.cancel("12"))).exit_code == 0


async def test_a_connection_that_dies_between_commands_is_made_anew(own: tuple[SshServer, Stand]) -> None:
    running, stand = own
    stand.has("scontrol", "echo fine")
    assert (await ask(running.ssh)).stdout == b"fine\n"
    said = (await asyncio.to_thread(output_of, *running.ssh.argv("", "-O", "check")[:-1])).stderr.decode()
    os.kill(int(said.partition("pid=")[2].partition(")")[0]), 9)
    got = await ask(running.ssh)
    if got.unreached:  # it was handed to the session before that was seen to have ended
        assert got.may_have_acted
        got = await ask(running.ssh)
    assert got.stdout == b"fine\n"
    await leave(by(running.ssh))
    assert not await asyncio.to_thread(Path(running.ssh.socket).exists)


async def test_a_host_that_is_away_is_said_and_one_that_is_back_is_used(own: tuple[SshServer, Stand]) -> None:
    running, stand = own
    stand.has("scontrol", "echo fine")
    running.stop()
    says_unreached(await ask(running.ssh), "nothing listens there", "see that sshd runs on 127.0.0.1")
    running.start()
    assert (await ask(running.ssh)).stdout == b"fine\n"


async def test_a_changed_host_key_is_refused_and_said(own: tuple[SshServer, Stand]) -> None:
    running, stand = own
    stand.has("scontrol", "touch {folder}/ran")
    running.change_host_key()
    running.start()
    says_unreached(await ask(running.ssh), "host key is not the one that is known", str(running.known_hosts))
    running.known_hosts.write_text("")
    says_unreached(await ask(running.ssh), "host key is not known", "ssh-keyscan 127.0.0.1")
    assert not (stand.folder / "ran").exists()


async def test_what_is_missing_is_said_with_what_mends_it(own: tuple[SshServer, Stand], tmp_path: Path) -> None:
    running, _ = own
    other = tmp_path / "other_key"
    await asyncio.to_thread(output_of, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other))
    says_unreached(await ask(replace(running.ssh, key_file=str(other))), "does not take our key", "authorized_keys")
    running.key_file.chmod(0o644)
    says_unreached(await ask(running.ssh), f"chmod 600 {running.key_file}")
    running.key_file.chmod(0o600)
    says_unreached(await ask(replace(running.ssh, host="no-such-host.invalid")), "its name is not known here")
    running.script.unlink()
    says_unreached(await ask(running.ssh), "is not there", "relance slurm-script")
    running.install("#!/bin/sh\necho hello; exit 0\n")
    says_unreached(await ask(running.ssh), "did not greet")


async def test_a_login_shell_that_talks_is_not_taken_for_slurm(own: tuple[SshServer, Stand]) -> None:
    running, stand = own
    stand.has("scontrol", "echo fine")
    inner = running.folder / "inner"
    inner.write_text(running.script.read_text())
    inner.chmod(0o755)
    running.install(f"#!/bin/sh\necho Welcome to alpha\necho quota >&2\nexec {inner}\n")
    assert (await ask(running.ssh)).stdout == b"fine\n"
    found = {each.name: each for each in await accesses(by(running.ssh), SystemClock())}
    assert "prints something of its own" in found["access"].text


async def test_the_check_says_that_all_is_well(server: tuple[SshServer, Stand]) -> None:
    running, _ = server
    found = {each.name: each.level.value for each in await accesses(by(running.ssh), SystemClock())}
    assert found == {"access": "ok", "script": "ok", "allow_list": "ok", "key": "ok", "files": "ok"}


async def test_the_check_tells_a_key_that_may_do_more_and_another_script(tmp_path: Path) -> None:
    with sshd(Login(forced=False, script=script_text(read_only=True))) as running:
        ssh = replace(running.ssh, script=str(running.script))
        found = {each.name: each for each in await accesses(by(ssh), SystemClock())}
        assert (found["key"].level.value, found["key"].text) == ("warn", "our key can run anything there")
        assert "restrict,command=" in found["key"].remedy
        assert (found["script"].level.value, "only reads" in found["script"].text) == ("blocks_act", True)
        assert (await ask(ssh, commands.cancel("12"))).never_ran
        await leave(by(ssh))
        running.install(script_text(bin_dir=str(tmp_path), read_only=True))
        Stand(tmp_path).has("scontrol", "echo fine")
        assert "only reads; for act install it" in (await ask(ssh)).lacks
        await leave(by(ssh))
        running.install(script_text(bin_dir=str(tmp_path)).replace("scontrol release", "scontrol shutdown"))
        assert "is of another release" in (await ask(ssh)).lacks
        found = {each.name: each for each in await accesses(by(ssh), SystemClock())}
        assert (found["script"].level.value, "another release" in found["script"].text) == ("blocks_act", True)
        await leave(by(ssh))
        running.stop()
        gone = await accesses(by(ssh), SystemClock())
        assert [each.level.value for each in gone if each.name == "access"] == ["blocks_observe"]
