"""Running one command, bounded in time and output, in an environment in which its answer has one form."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from relance.slurm import containers, ssh
from relance.slurm.containers import Container
from relance.slurm.outputs import MAX_OUTPUT_BYTES, TOKEN, Output, never_ran
from relance.slurm.processes import Talk, bury
from relance.slurm.ssh import Ssh
from relance.slurm.tokens import TokenError, read_token

__all__ = ["MAX_OUTPUT_BYTES", "Commands", "Output", "leave", "new_mark", "run"]
_FORMS = {"LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
"""English words, and times as seconds since 1970; a time in an argument is UTC."""
_KEPT = ("HOME", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SLURM_CONF", "SLURM_JWT", "USER")
"""All that a command gets from our own environment: SQUEUE_FORMAT and its like would change what it prints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Where a cluster's commands are, and how they are started.

    Attributes:
        bin_dir: Folder of the commands; None: found by PATH. Over SSH the script there has it.
        slurm_conf: The cluster's slurm.conf; None: as the environment or Slurm's default says. Over SSH likewise.
        prefix: A program of this host that starts each command in its own place, such as one that changes the user. It
            need not hand the environment on: the settings that matter are then given by `env`.
        way: The host or container where the commands are; None: this host.
        token_file: The file with a token for Slurm (auth/jwt), read anew for each command; None: Slurm's own means.
    """

    bin_dir: str | None = None
    slurm_conf: str | None = None
    prefix: tuple[str, ...] = ()
    way: Ssh | Container | None = None
    token_file: str | None = None

    def argv(self, command: Sequence[str]) -> tuple[str, ...]:
        """The whole argument list of a command from `relance.slurm.commands`."""
        name, *arguments = command
        path = name if self.bin_dir is None else f"{self.bin_dir.rstrip('/')}/{name}"
        if not self.prefix:
            return (path, *arguments)
        conf = () if self.slurm_conf is None else (f"SLURM_CONF={self.slurm_conf}",)
        return (*self.prefix, "env", *(f"{key}={value}" for key, value in _FORMS.items()), *conf, path, *arguments)

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """The environment of a command, from `ours`: little of it, and nothing that changes what is printed."""
        kept = {key: ours[key] for key in _KEPT if key in ours}
        conf = {} if self.slurm_conf is None else {"SLURM_CONF": self.slurm_conf}
        return {**kept, **_FORMS, **conf}


def new_mark() -> str:
    """A fresh mark for the end of each column: nobody who chose a job's name can know it."""
    return f"~{secrets.token_hex(8)}~"


async def run(
    commands: Commands,
    command: Sequence[str],
    *,
    time_limit_s: float,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    ours: Mapping[str, str] | None = None,
) -> Output:
    """Run a command to its end, or to its limit: then its whole process group is killed.

    Never raises for what the command does, nor where there is no way to it; cancelling this call kills the command too.
    """
    token = ""
    if commands.token_file is not None:
        try:
            token = read_token(commands.token_file).text
        except TokenError as error:
            return never_ran(tuple(command), str(error), unreached=TOKEN)
    around = os.environ if ours is None else ours
    match commands.way:
        case Ssh() as way:
            return await ssh.ask(
                way, command, token, time_limit_s=time_limit_s, max_bytes=max_output_bytes, ours=around
            )
        case Container() as way:
            inside = replace(commands, prefix=()).argv(command)
            given = (commands.slurm_conf or "", token)
            return await containers.ask(
                way, inside, given, time_limit_s=time_limit_s, max_bytes=max_output_bytes, ours=around
            )
        case None:
            environment = commands.environment(around) | ({"SLURM_JWT": token} if token else {})
            return await _run_here(commands.argv(command), environment, time_limit_s, max_output_bytes)


async def leave(commands: Commands) -> None:
    """Give back what is held between commands, such as a connection; may be called twice."""
    if isinstance(commands.way, Ssh):
        await ssh.leave(commands.way, os.environ)


async def _run_here(
    argv: tuple[str, ...], environment: Mapping[str, str], time_limit_s: float, max_output_bytes: int
) -> Output:
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        transport, talk = await loop.subprocess_exec(
            lambda: Talk(max_output_bytes),
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        said = f"Cannot start {argv[0]}: {error.strerror or error}."
        return Output(argv=argv, exit_code=None, stdout=b"", stderr=said, wall_s=loop.time() - began)
    gave_up: str | None = None
    try:
        async with asyncio.timeout(time_limit_s):
            await talk.over.wait()
    except TimeoutError:
        gave_up = f"no answer within {time_limit_s:g} s"
    finally:
        await bury(transport, talk)
    if talk.is_too_much:
        gave_up = f"an answer of more than {max_output_bytes} bytes"
    return Output(
        argv=argv,
        exit_code=transport.get_returncode() if gave_up is None else None,
        stdout=bytes(talk.stdout),
        stderr=talk.stderr.decode("utf-8", "replace"),
        wall_s=loop.time() - began,
        gave_up=gave_up,
    )
