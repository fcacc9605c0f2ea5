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


def no_end(_answer: bytearray) -> int:
    """Of an answer that only the end of the process ends."""
    return 0


def only_greeted(greeting: re.Pattern[bytes]) -> Manners:
    """Manners of whoever asks for nothing but the greeting."""
    return Manners(greeting=greeting, end_of=lambda _answer: 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How one speaks with whoever is behind a process.

    Attributes:
        greeting: The line with which the other side says that it is there; group 1 is what it says of itself.
        end_of: Where an answer ends in what was printed so far; 0: it is not all there, or only the end of the process
            ends it.
        speaks_on: Whether the other side greets again after an answer, and can be asked again.
    """

    greeting: re.Pattern[bytes]
    end_of: Callable[[bytearray], int]
    speaks_on: bool = False


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
        self.is_used = False
        """Whether it was asked since its greeting."""
        self.turn = asyncio.Event()
        """It is our turn: the other side greeted, or never will."""
        self._manners = manners

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        super().pipe_data_received(fd, data)
        if fd == 1:
            self._listen()

    def _listen(self) -> None:
        if self.greeting is None:
            found = self._manners.greeting.search(self.stdout)
            if found is not None:
                self.greeting, self.preamble = bytes(found[1]), bytes(self.stdout[: found.start()])
                self.greeted_s = asyncio.get_running_loop().time()
                del self.stdout[: found.end()]
            elif len(self.stdout) > _MAX_PREAMBLE_BYTES:
                self.over.set()
        if self.greeting is not None and self._manners.end_of(self.stdout):
            self.over.set()
        if self.greeting is not None or self.over.is_set():
            self.turn.set()

    def speaks_on(self) -> bool:
        """Whether the answer is all there and another greeting will follow."""
        is_whole = self.greeting is not None and self._manners.end_of(self.stdout) > 0
        return self._manners.speaks_on and is_whole and not self.is_too_much and not self.buried.is_set()

    def begin_again(self) -> None:
        """Wait for the next greeting, now that an answer was taken."""
        del self.stdout[: self._manners.end_of(self.stdout)]
        self.stderr.clear()
        self.greeting, self.preamble, self.is_used = None, b"", False
        self.limit = 2 * _MAX_PREAMBLE_BYTES
        self.over.clear()
        self.turn.clear()
        self._listen()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.turn.set()


class Conversation:
    """A process that was started to be asked, one thing after another. Whoever opens one drops it in the end."""

    def __init__(self, transport: asyncio.SubprocessTransport, talk: _Talker) -> None:
        """Take what `open_conversation` started."""
        self._transport = transport
        self._talk = talk

    @property
    def lives(self) -> bool:
        """Whether it can be asked: it has not ended, and what was asked of it was answered."""
        return not self._talk.over.is_set() and not self._talk.is_used

    @property
    def age_s(self) -> float:
        """How long ago it greeted; 0: it has not yet."""
        return asyncio.get_running_loop().time() - self._talk.greeted_s if self._talk.greeting is not None else 0.0

    async def ask(self, request: Callable[[float, float], bytes], *, time_limit_s: float, max_bytes: int) -> Heard:
        """Wait to be greeted, write the request and hear the answer, all within the limit.

        `request` is given the seconds that are left, and those since the greeting. Then the process is ended, unless
        the other side speaks on (see `lives`). Never raises for what the process does; cancelling this call kills it.
        """
        loop, talk, transport = asyncio.get_running_loop(), self._talk, self._transport
        began = loop.time()
        talk.limit, talk.is_used = max_bytes + _MAX_PREAMBLE_BYTES, True
        is_late, speaks_on = False, False
        try:
            async with asyncio.timeout(time_limit_s):
                await talk.turn.wait()
                # Other loops have transports of their own that are no asyncio.WriteTransport.
                mouth = cast("asyncio.WriteTransport | None", transport.get_pipe_transport(0))
                if talk.greeting is not None and mouth is not None:
                    mouth.write(request(time_limit_s - (loop.time() - began), self.age_s))
                await talk.over.wait()
            speaks_on = talk.speaks_on()
            if not speaks_on:
                await _part(transport, talk)
        except TimeoutError:
            is_late = True
        finally:
            if not speaks_on:
                await bury(transport, talk)
        heard = Heard(
            greeting=talk.greeting,
            preamble=talk.preamble,
            answer=bytes(talk.stdout),
            stderr=talk.stderr.decode("utf-8", "replace"),
            exit_code=None if is_late or talk.is_too_much else transport.get_returncode(),
            is_late=is_late,
            is_too_much=talk.is_too_much,
            wall_s=loop.time() - began,
        )
        if speaks_on:
            talk.begin_again()
        return heard

    async def drop(self) -> None:
        """End it; may be called twice."""
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
