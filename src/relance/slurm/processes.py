"""A process of this host, bounded in time and output, and its whole group killed at the end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

_MAX_ERROR_BYTES = 64 << 10
_MAX_PREAMBLE_BYTES = 64 << 10
"""What a login shell may print before the other side greets; more than that is no greeting."""
_BURIAL_LIMIT_S = 5.0
_PARTING_LIMIT_S = 1.0
"""How long a process whose answer is all there may take to end by itself; a connection that is kept may hold it up."""


class Talk(asyncio.SubprocessProtocol):
    """Keeps what a command writes; `over` once it has ended and closed its outputs, or wrote too much."""

    def __init__(self, limit: int) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.is_too_much = False
        self.over = asyncio.Event()
        self.buried = asyncio.Event()
        self.limit = limit

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self.stderr.extend(data[: max(0, _MAX_ERROR_BYTES - len(self.stderr))])
        elif len(self.stdout) + len(data) <= self.limit and not self.is_too_much:
            self.stdout.extend(data)
        else:
            self.is_too_much = True
            self.over.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()
        self.buried.set()


def never_whole(_answer: bytearray) -> bool:
    """Of an answer that only the end of the process ends."""
    return False


def only_greeted(greeting: re.Pattern[bytes]) -> Manners:
    """Manners of whoever asks for nothing but the greeting."""
    return Manners(greeting=greeting, is_whole=lambda _answer: True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How one speaks with whoever is behind a process.

    Attributes:
        greeting: The line with which the other side says that it is there; group 1 is what it says of itself.
        is_whole: Whether an answer is all there, so that the end of the process need not be waited for.
    """

    greeting: re.Pattern[bytes]
    is_whole: Callable[[bytearray], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What came of a conversation.

    Attributes:
        greeting: What the other side said of itself; None: it did not greet, so it was asked for nothing.
        preamble: What was printed before the greeting.
        answer: What was printed after it.
        exit_code: That of the process; None: it was ended by us, or was not started.
        is_late: Whether the time was over.
        is_too_much: Whether the answer was longer than it may be.
        refused: Why the process could not be started; empty: it was.
    """

    greeting: bytes | None = None
    preamble: bytes = b""
    answer: bytes = b""
    stderr: str = ""
    exit_code: int | None = None
    is_late: bool = False
    is_too_much: bool = False
    refused: str = ""
    wall_s: float = 0.0


class _Talker(Talk):
    """A talk in which the other side greets first."""

    def __init__(self, manners: Manners) -> None:
        super().__init__(2 * _MAX_PREAMBLE_BYTES)
        self.greeting: bytes | None = None
        self.greeted_s = 0.0
        self.preamble = b""
        self.turn = asyncio.Event()
        """It is our turn: the other side greeted, or never will."""
        self._manners = manners

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        super().pipe_data_received(fd, data)
        if fd == 1 and self.greeting is None:
            found = self._manners.greeting.search(self.stdout)
            if found is not None:
                self.greeting, self.preamble = bytes(found[1]), bytes(self.stdout[: found.start()])
                self.greeted_s = asyncio.get_running_loop().time()
                del self.stdout[: found.end()]
            elif len(self.stdout) > _MAX_PREAMBLE_BYTES:
                self.over.set()
        if fd == 1 and self.greeting is not None and self._manners.is_whole(self.stdout):
            self.over.set()
        if self.greeting is not None or self.over.is_set():
            self.turn.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.turn.set()


class Conversation:
    """A process that was started to be asked one thing. Whoever opens one asks it or drops it."""

    def __init__(self, transport: asyncio.SubprocessTransport, talk: _Talker) -> None:
        """Take what `open_conversation` started."""
        self._transport = transport
        self._talk = talk

    @property
    def waits(self) -> bool:
        """Whether the other side has greeted and still waits for its request."""
        return self._talk.greeting is not None and not self._talk.over.is_set()

    @property
    def age_s(self) -> float:
        """How long ago it greeted."""
        return asyncio.get_running_loop().time() - self._talk.greeted_s

    async def greeted(self) -> bool:
        """Wait for the greeting, or for the end; says whether it came."""
        await self._talk.turn.wait()
        return self.waits

    async def ask(self, request: Callable[[float, float], bytes], *, time_limit_s: float, max_bytes: int) -> Heard:
        """Wait to be greeted, write the request and hear the answer, all within the limit; then it is over.

        `request` is given the seconds that are left, and those since the greeting. Never raises for what the process
        does; cancelling this call kills it too.
        """
        loop, talk, transport = asyncio.get_running_loop(), self._talk, self._transport
        began = loop.time()
        talk.limit = max_bytes + _MAX_PREAMBLE_BYTES
        is_late = False
        try:
            async with asyncio.timeout(time_limit_s):
                await talk.turn.wait()
                # Other loops have transports of their own that are no asyncio.WriteTransport.
                mouth = cast("asyncio.WriteTransport | None", transport.get_pipe_transport(0))
                if talk.greeting is not None and mouth is not None:
                    mouth.write(request(time_limit_s - (loop.time() - began), self.age_s))
                await talk.over.wait()
            await _part(transport, talk)
        except TimeoutError:
            is_late = True
        finally:
            await bury(transport, talk)
        return Heard(
            greeting=talk.greeting,
            preamble=talk.preamble,
            answer=bytes(talk.stdout),
            stderr=talk.stderr.decode("utf-8", "replace"),
            exit_code=None if is_late or talk.is_too_much else transport.get_returncode(),
            is_late=is_late,
            is_too_much=talk.is_too_much,
            wall_s=loop.time() - began,
        )

    async def drop(self) -> None:
        """End it without asking anything."""
        await _part(self._transport, self._talk)
        await bury(self._transport, self._talk)


async def open_conversation(
    argv: Sequence[str], environment: Mapping[str, str], manners: Manners
) -> Conversation | Heard:
    """Start a process that is to be asked; its greeting is waited for later. Heard: it could not be started."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        transport, talk = await loop.subprocess_exec(
            lambda: _Talker(manners),
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else None
        return Heard(refused=f"Cannot start {argv[0]}: {said or error}.", wall_s=loop.time() - began)
    return Conversation(transport, talk)


async def converse(
    argv: Sequence[str],
    environment: Mapping[str, str],
    manners: Manners,
    request: Callable[[float, float], bytes],
    *,
    time_limit_s: float,
    max_bytes: int,
) -> Heard:
    """Start a process, wait to be greeted, write the request and hear the answer: see `Conversation.ask`."""
    opened = await open_conversation(argv, environment, manners)
    if isinstance(opened, Heard):
        return opened
    return await opened.ask(request, time_limit_s=time_limit_s, max_bytes=max_bytes)


def nothing(_left_s: float, _since_s: float) -> bytes:
    """The request of whoever asks for nothing but the greeting."""
    return b""


async def _part(transport: asyncio.SubprocessTransport, talk: Talk) -> None:
    """Let a process that has said all end by itself: to kill and to reap it at once would be a race."""
    mouth = transport.get_pipe_transport(0)
    if mouth is not None:
        mouth.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(0 if talk.is_too_much else _PARTING_LIMIT_S):
            await talk.buried.wait()


async def bury(transport: asyncio.SubprocessTransport, talk: Talk) -> None:
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
