"""Running one command, bounded in time and output, in an environment in which its answer has one form."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

MAX_OUTPUT_BYTES = 256 << 20
"""More than the JSON of 20,000 jobs; an answer that is longer is given up."""
_MAX_ERROR_BYTES = 64 << 10
_BURIAL_LIMIT_S = 5.0
_FORMS = {"LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
"""English words, and times as seconds since 1970; a time in an argument is UTC."""
_KEPT = ("HOME", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SLURM_CONF", "SLURM_JWT", "USER")
"""All that a command gets from our own environment: SQUEUE_FORMAT and its like would change what it prints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Where a cluster's commands are, and how they are started.

    Attributes:
        bin_dir: Folder of the commands; None: found by PATH.
        slurm_conf: The cluster's slurm.conf; None: as the environment or Slurm's default says.
        prefix: What stands before each command, such as a container's exec. It need not hand the environment on: the
            settings that matter are then given by `env`.
    """

    bin_dir: str | None = None
    slurm_conf: str | None = None
    prefix: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What came of one command. `exit_code` None: it never ran, or was killed here.

    Attributes:
        gave_up: Why it was killed here, in words; None: it ended by itself, or never ran.
        wall_s: Seconds from its start to its end.
    """

    argv: tuple[str, ...]
    exit_code: int | None
    stdout: bytes
    stderr: str
    wall_s: float
    gave_up: str | None = None

    @property
    def may_have_acted(self) -> bool:
        """Whether a change that this command asks for may have been carried out: it is not known, so look."""
        return self.gave_up is not None

    @property
    def never_ran(self) -> bool:
        """Whether the command could not be started at all."""
        return self.exit_code is None and self.gave_up is None


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

    Never raises for what the command does; cancelling this call kills the command too.
    """
    argv = commands.argv(command)
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        transport, talk = await loop.subprocess_exec(
            lambda: _Talk(max_output_bytes),
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=commands.environment(os.environ if ours is None else ours),
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
        await _bury(transport, talk)
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


class _Talk(asyncio.SubprocessProtocol):
    """Keeps what a command writes; `over` once it has ended and closed its outputs, or wrote too much."""

    def __init__(self, limit: int) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.is_too_much = False
        self.over = asyncio.Event()
        self.buried = asyncio.Event()
        self._limit = limit

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self.stderr.extend(data[: max(0, _MAX_ERROR_BYTES - len(self.stderr))])
        elif len(self.stdout) + len(data) <= self._limit and not self.is_too_much:
            self.stdout.extend(data)
        else:
            self.is_too_much = True
            self.over.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()
        self.buried.set()


async def _bury(transport: asyncio.SubprocessTransport, talk: _Talk) -> None:
    """Kill what is left of the command and reap it, also while this task is being cancelled.

    A process that even KILL does not end, such as one that waits for a dead mount, is left behind after a while.
    """
    if not talk.buried.is_set():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        with suppress(PermissionError):  # behind a prefix that changes the user
            transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_BURIAL_LIMIT_S):
                await talk.buried.wait()
    with suppress(PermissionError):
        transport.close()
