"""Slurm's commands on another host, by OpenSSH's client and the script `relance-slurm` there.

The first command opens a connection that is kept, and a session on it that serves the commands after it, too. The
script greets, and the command is handed over only then: without a greeting nothing was run, and what is lost after it
may have been carried out. The script counts its limit from its greeting, so that no command outlives ours, however late
it arrives. ssh's own exit code and words never pass for Slurm's: those come in a reply of the script's, with lengths.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relance.slurm.outputs import CONNECTION, Output, never_ran
from relance.slurm.processes import Heard, Manners, converse, nothing, only_greeted
from relance.slurm.scripts import DIGEST
from relance.slurm.sessions import drop_sessions, sessions_of

SCRIPT = "relance-slurm"
"""The one constant word that is run on the other host."""
_KEPT = ("HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "USER")
_KEEP_S = 60
"""The connection is kept for so long after its last command."""
_ALIVE_S, _ALIVE_TRIES = 5, 2
"""A connection that carries nothing any more is given up after 10 to 15 s."""
_MARGIN_S = 0.5
"""The script's limit ends so much before ours, so that its answer arrives."""
_LEAVE_LIMIT_S = 5.0
_LONGEST_PLACE = 40
"""The path of a socket has at most 107 signs, of which ssh takes 17 while it makes it."""
_GREETING = re.compile(rb"(?:\A|(?<=\n))relance-slurm hello (\{[^\n]*\})\r?\n")
_REPLY = re.compile(rb'relance-slurm reply (\{[^\n]*"stdout": (\d{1,10}), "stderr": (\d{1,10})\})\n')
_OVERHEAD_BYTES = 128 << 10
_NOT_FOUND, _NOT_RUN = 127, 126
_CHANGED = (
    "its host key is not the one that is known, so nothing was sent. Compare `ssh-keyscan {host}` with what the host "
    "itself says (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`); only if it was set up anew, put the new line "
    "into {known_hosts}"
)
_NOT_KNOWN = (
    "its host key is not known: put the line of `ssh-keyscan {host}` into {known_hosts}, after comparing it with what "
    "the host itself says (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`)"
)
_NOT_TAKEN = (
    "it does not take our key: put {key}.pub into ~/.ssh/authorized_keys of {user} there, as `relance slurm-script "
    "--help` shows, and see that the account is not locked and that {key} can be read here"
)
_REMEDIES = (
    ("remote host identification has changed", _CHANGED),
    ("host key verification failed", _NOT_KNOWN),
    ("unprotected private key file", "other users may read the key: chmod 600 {key}"),
    ("permission denied", _NOT_TAKEN),
    ("could not resolve hostname", "its name is not known here: see `getent hosts {host}`"),
    ("connection refused", "nothing listens there: see that sshd runs on {host}, and that the port is right"),
    ("timed out", "it does not answer: see that {host} is up, and that no firewall is in between"),
    ("no route to host", "it cannot be reached: see that {host} is up, and that no firewall is in between"),
    ("too many authentication failures", "it was offered too many keys: name the key in access.key_file"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """A host where the script is, and how it is reached.

    Attributes:
        host: Its name or address.
        user: As whom; empty: as ssh decides.
        port: Its port; None: as ssh decides.
        key_file: The private key; empty: what ssh finds by itself.
        known_hosts: The file with the host's key; empty: those of the user and of this machine.
        script: The word that is run there; another one where several clusters are reached by one host.
        connect_timeout_s: How long a connection may take to be made.
    """

    host: str
    user: str = ""
    port: int | None = None
    key_file: str = ""
    known_hosts: str = ""
    script: str = SCRIPT
    connect_timeout_s: int = 5

    @property
    def name(self) -> str:
        """For people: user, host and port."""
        return f"{self.user}@" * bool(self.user) + self.host + (f":{self.port}" if self.port is not None else "")

    @property
    def socket(self) -> str:
        """Where the kept connection listens for us: a short path, as those of sockets have to be."""
        mark = hashlib.sha256(repr((self.host, self.user, self.port, self.key_file, self.known_hosts)).encode())
        return f"{_folder()}/{mark.hexdigest()[:12]}"

    def argv(self, word: str, *more: str) -> tuple[str, ...]:
        """The command that runs a word there, after `more` options."""
        options = {
            "BatchMode": "yes",
            "CheckHostIP": "no",
            "ClearAllForwardings": "yes",
            "ConnectTimeout": str(self.connect_timeout_s),
            "ConnectionAttempts": "1",
            "ControlMaster": "auto",
            "ControlPath": self.socket,
            "ControlPersist": str(_KEEP_S),
            "EscapeChar": "none",
            "ForwardAgent": "no",
            "LogLevel": "ERROR",
            "PermitLocalCommand": "no",
            "RequestTTY": "no",
            "ServerAliveCountMax": str(_ALIVE_TRIES),
            "ServerAliveInterval": str(_ALIVE_S),
            "StrictHostKeyChecking": "yes",
            "UpdateHostKeys": "no",
        }
        if self.known_hosts:
            options |= {"UserKnownHostsFile": self.known_hosts, "GlobalKnownHostsFile": "/dev/null"}
        if self.key_file:
            options |= {"IdentityFile": self.key_file, "IdentitiesOnly": "yes"}
        given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        user = ["-l", self.user] if self.user else []
        port = ["-p", str(self.port)] if self.port is not None else []
        return ("ssh", *given, *user, *port, *more, "--", self.host, word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What the script says of itself.

    Attributes:
        digest: A mark of all that it allows.
        read_only: Whether it refuses whatever changes anything.
        account: Name and uid of the account that it runs as.
        preamble: What the login shell printed before it.
    """

    protocol: int
    digest: str
    read_only: bool
    account: tuple[str, int]
    preamble: str = ""


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """What ssh gets of our environment."""
    return {key: ours[key] for key in _KEPT if key in ours}


async def ask(
    ssh: Ssh, command: Sequence[str], token: str, *, time_limit_s: float, max_bytes: int, ours: Mapping[str, str]
) -> Output:
    """Run a command by the script on the other host. Never raises for what becomes of it."""
    argv = tuple(command)

    def request(left_s: float, since_s: float) -> bytes:
        # The script's clock runs since its greeting, so its limit is counted from there.
        limit_s = since_s + max(0.001, left_s - min(_MARGIN_S, left_s / 4))
        asked = {"argv": list(argv), "limit_s": round(limit_s, 3), "most_bytes": max_bytes, "token": token}
        return json.dumps(asked).encode() + b"\n"

    manners = Manners(greeting=_GREETING, end_of=_end_of, speaks_on=True)
    sessions = sessions_of((ssh, ssh.argv(ssh.script)), environment(ours), manners)
    heard = await sessions.ask(request, time_limit_s=time_limit_s, max_bytes=max_bytes + _OVERHEAD_BYTES)
    if heard.greeting is None:
        return never_ran(argv, why_unreached(ssh, heard), wall_s=heard.wall_s, unreached=CONNECTION)
    return _output(ssh, argv, heard)


def greeting_of(heard: Heard) -> Greeting | None:
    """What the script says of itself; None: it did not greet, or not in a form that is known."""
    if heard.greeting is None:
        return None
    try:
        said: dict[str, Any] = json.loads(heard.greeting)
        return Greeting(
            protocol=int(said["protocol"]),
            digest=str(said["digest"]),
            read_only=bool(said["read_only"]),
            account=(str(said["user"]), int(said["uid"])),
            preamble=heard.preamble.decode("utf-8", "replace").strip(),
        )
    except (KeyError, TypeError, ValueError):
        return None


def lacks_of(ssh: Ssh, greeting: Greeting) -> str:
    """Why nothing may be changed by this script; empty: nothing speaks against it."""
    if greeting.digest != DIGEST:
        text = f"{ssh.script} on {ssh.name} is of another release: it may refuse a command in the middle of a restart"
        return f"{text}; install this release's there: relance slurm-script > {ssh.script}"
    if greeting.read_only:
        return f"{ssh.script} on {ssh.name} only reads; for act install it there without --read-only"
    return ""


async def greet(ssh: Ssh, *, word: str, time_limit_s: float, ours: Mapping[str, str]) -> Heard:
    """Run a word there, ask for nothing and hear what is said."""
    manners = only_greeted(_GREETING)
    return await converse(
        ssh.argv(word), environment(ours), manners, nothing, time_limit_s=time_limit_s, max_bytes=_OVERHEAD_BYTES
    )


async def leave(ssh: Ssh, ours: Mapping[str, str]) -> None:
    """Give back the kept connection, and the sessions on it, if there are any."""
    await drop_sessions(ssh)
    if not _is_kept(ssh):
        return
    with suppress(OSError, TimeoutError):
        process = await asyncio.create_subprocess_exec(
            *ssh.argv("", "-O", "exit")[:-1],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment(ours),
        )
        try:
            async with asyncio.timeout(_LEAVE_LIMIT_S):
                await process.wait()
        except TimeoutError:
            process.kill()


def why_unreached(ssh: Ssh, heard: Heard) -> str:
    """Why there was no greeting, with what mends it."""
    if heard.refused:
        return f"{heard.refused} Install OpenSSH's client (openssh-client)."
    said = " ".join(f"{heard.stderr} {heard.answer.decode('utf-8', 'replace')}".split())[:300]
    words = said.lower()
    facts = {
        "host": ssh.host,
        "key": ssh.key_file or "the key",
        "known_hosts": ssh.known_hosts or "~/.ssh/known_hosts",
        "user": ssh.user or "our account",
    }
    for sign, remedy in _REMEDIES:
        if sign in words:
            return f"{ssh.name} cannot be asked: {remedy.format(**facts)}. ssh said: {said}"
    if heard.exit_code in (_NOT_FOUND, _NOT_RUN):
        place = "is not there" if heard.exit_code == _NOT_FOUND else "cannot be run"
        return (
            f"{ssh.script} {place} on {ssh.name}: install it with `relance slurm-script > {ssh.script}` and make it "
            f"executable, where the login shell finds it or by its whole path in authorized_keys. It said: {said}"
        )
    if heard.is_late:
        return f"{ssh.name} did not answer in time: see that it is up and not overloaded. ssh said: {said or 'nothing'}"
    what = said or f"nothing, and ended with {heard.exit_code}"
    port = f"-p {ssh.port} " * (ssh.port is not None)
    key = f"-i {ssh.key_file} " * bool(ssh.key_file)
    by_hand = f"ssh {port}{key}{f'{ssh.user}@' * bool(ssh.user)}{ssh.host} {ssh.script}"
    return f"{ssh.script} on {ssh.name} did not greet: run `{by_hand}` by hand. It said: {what}"


def _is_kept(ssh: Ssh) -> bool:
    return Path(ssh.socket).exists()


def _end_of(answer: bytes | bytearray) -> int:
    """Where a reply ends; 0: it is not all there."""
    found = _REPLY.match(answer)
    end = found.end() + int(found[2]) + int(found[3]) if found is not None else 0
    return end if end <= len(answer) else 0


def _output(ssh: Ssh, argv: tuple[str, ...], heard: Heard) -> Output:
    greeting = greeting_of(heard)
    account = greeting.account if greeting is not None else None
    found = _REPLY.match(heard.answer)
    if found is None or not _end_of(heard.answer):
        return _lost(ssh, argv, heard, account)
    stdout_end = found.end() + int(found[2])
    stdout, stderr = heard.answer[found.end() : stdout_end], heard.answer[stdout_end : stdout_end + int(found[3])]
    try:
        said: dict[str, Any] = json.loads(found[1])
    except ValueError:
        return _lost(ssh, argv, heard, account)
    if "refused" in said:
        why = (
            f"{ssh.script} on {ssh.name} refused to run {' '.join(argv[:3])}: {said['refused']}. If it is of another "
            f"release of Relance, install this one's: `relance slurm-script`"
        )
        return never_ran(argv, why, wall_s=heard.wall_s)
    if "never_ran" in said:
        return never_ran(argv, f"{ssh.name}: {said['never_ran']}", wall_s=heard.wall_s)
    code = said.get("exit_code")
    return Output(
        argv=argv,
        exit_code=code if isinstance(code, int) else None,
        stdout=stdout,
        stderr=stderr.decode("utf-8", "replace"),
        wall_s=heard.wall_s,
        gave_up=None if isinstance(code, int) else str(said.get("gave_up", "an answer that is not known")),
        account=account,
        lacks=lacks_of(ssh, greeting) if greeting is not None else "",
    )


def _lost(ssh: Ssh, argv: tuple[str, ...], heard: Heard, account: tuple[str, int] | None) -> Output:
    """The command was handed over and no whole answer came back: it may have been carried out."""
    if heard.is_too_much:
        why, unreached = "a longer answer than was allowed", ""
    elif heard.is_late:
        why, unreached = f"no answer from {ssh.name} within {heard.wall_s:.1f} s", ""
    else:
        why, unreached = f"the connection to {ssh.name} was lost after the command was handed over", CONNECTION
    return Output(
        argv=argv,
        exit_code=None,
        stdout=b"",
        stderr=heard.stderr,
        wall_s=heard.wall_s,
        gave_up=why,
        unreached=unreached,
        account=account,
    )


_FOLDERS: list[str] = []


def _folder() -> str:
    """A folder of this process, closed to others, for its connections; a new one if somebody tidied it up."""
    if not _FOLDERS or not Path(_FOLDERS[-1]).is_dir():
        is_long = len(tempfile.gettempdir()) > _LONGEST_PLACE
        _FOLDERS.append(tempfile.mkdtemp(prefix="relance-", dir="/tmp" if is_long else None))  # noqa: S108 - it is 0700
        atexit.register(shutil.rmtree, _FOLDERS[-1], ignore_errors=True)
    return _FOLDERS[-1]
