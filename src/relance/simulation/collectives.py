"""Ranks that talk to each other over TCP: they meet at rank 0, form a ring, and reduce over it.

What goes wrong is what goes wrong with the real thing: a peer that died closes its sockets, so its neighbours' calls
fail at once and theirs after them; a peer that was stopped keeps them open, so all wait.
"""

from __future__ import annotations

import json
import socket
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_HOST = "127.0.0.1"
_JOIN_PAUSE_S = 0.05
_FLOAT_BYTES = 8


class DistBackendError(RuntimeError):
    """A collective failed. Named as torch's own, whose place in the log it takes."""

    __module__ = "torch.distributed"


class DistStoreError(RuntimeError):
    """The ranks did not all come together. Named as torch's own."""

    __module__ = "torch.distributed"


class CollectiveTimeout(Exception):
    """A collective took longer than it may; the message names it as torch's watchdog does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where the ranks of an attempt meet. Times in seconds."""

    rank: int
    ranks: int
    host: str
    port: int
    token: str
    """Tells this attempt from others."""
    join_timeout_s: float = 60.0
    collective_timeout_s: float | None = None
    """None: wait for ever, as for a peer that was stopped."""


class Ring:
    """The ranks in a ring, each with a connection to the next and one from the previous.

    Args:
        meeting: Where to meet. With one rank there is nobody to meet.

    Raises:
        DistStoreError: Somebody did not come in time.
    """

    def __init__(self, meeting: Meeting) -> None:
        self.rank = meeting.rank
        self.ranks = meeting.ranks
        self._timeout_s = meeting.collective_timeout_s
        self._sequence = 0
        self._next: socket.socket | None = None
        self._previous: socket.socket | None = None
        self._addresses: dict[socket.socket, str] = {}
        if meeting.ranks > 1:
            self._join(meeting)

    def all_reduce(self, values: array[float]) -> None:
        """Replace the values by their sums over all ranks, the same bits on each: reduce-scatter, then all-gather.

        Raises:
            DistBackendError: A peer is gone.
            CollectiveTimeout: It took too long.
        """
        if self._next is None:
            return
        self._sequence += 1
        parts = _parts(len(values), self.ranks)
        for turn in range(self.ranks - 1):
            give = parts[(self.rank - turn) % self.ranks]
            take = parts[(self.rank - turn - 1) % self.ranks]
            got = self._pass_on(values[give].tobytes(), _FLOAT_BYTES * (take.stop - take.start), len(values))
            for i, value in enumerate(array("d", got), take.start):
                values[i] += value
        for turn in range(self.ranks - 1):
            give = parts[(self.rank + 1 - turn) % self.ranks]
            take = parts[(self.rank - turn) % self.ranks]
            got = self._pass_on(values[give].tobytes(), _FLOAT_BYTES * (take.stop - take.start), len(values))
            values[take] = array("d", got)

    def all_gather(self, value: bytes) -> list[bytes]:
        """Every rank's value, by rank; all of the same length.

        Raises:
            DistBackendError: A peer is gone.
            CollectiveTimeout: It took too long.
        """
        found = {self.rank: value}
        if self._next is not None:
            self._sequence += 1
            for turn in range(self.ranks - 1):
                value = self._pass_on(value, len(value), len(value))
                found[(self.rank - turn - 1) % self.ranks] = value
        return [found[rank] for rank in range(self.ranks)]

    def close(self) -> None:
        """Leave the ring."""
        for each in (self._next, self._previous):
            if each is not None:
                each.close()

    def _pass_on(self, data: bytes, expected: int, elements: int) -> bytes:
        """Give data to the next rank and take as many bytes from the previous one."""
        if self._next is None or self._previous is None:
            raise DistBackendError("this rank is alone")
        began = time.monotonic()
        peer = self._next
        try:
            self._next.sendall(data)
            peer = self._previous
            got = b""
            while len(got) < expected:
                block = self._previous.recv(expected - len(got))
                if not block:
                    raise DistBackendError(self._closed(peer))
                got += block
        except TimeoutError:
            waited_ms = round(1000 * (time.monotonic() - began))
            limit_ms = round(1000 * (self._timeout_s or 0.0))
            raise CollectiveTimeout(
                f"WorkNCCL(SeqNum={self._sequence}, OpType=ALLREDUCE, NumelIn={elements}, NumelOut={elements}, "
                f"Timeout(ms)={limit_ms}) ran for {waited_ms} milliseconds before timing out."
            ) from None
        except OSError:
            raise DistBackendError(self._closed(peer)) from None
        return got

    def _join(self, meeting: Meeting) -> None:
        deadline = time.monotonic() + meeting.join_timeout_s
        with socket.create_server((_HOST, 0), backlog=8) as door:
            ports = _meet(meeting, door.getsockname()[1], deadline)
            self._next = socket.create_connection((_HOST, ports[(self.rank + 1) % self.ranks]))
            door.settimeout(max(deadline - time.monotonic(), _JOIN_PAUSE_S))
            try:
                self._previous, _ = door.accept()
            except TimeoutError:
                raise DistStoreError(_missing(meeting, 0)) from None
        for each in (self._next, self._previous):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.settimeout(self._timeout_s)
            host, port = each.getpeername()
            self._addresses[each] = f"[{host}]:{port}"

    def _closed(self, peer: socket.socket) -> str:
        return (
            "all_reduce: remote process exited or there was a network error: "
            f"Connection closed by peer {self._addresses[peer]}"
        )


def _meet(meeting: Meeting, own_port: int, deadline: float) -> list[int]:
    """Every rank's port, by rank; rank 0 hears them all and tells the others."""
    if meeting.rank == 0:
        return _host(meeting, own_port, deadline)
    hello = {"rank": meeting.rank, "port": own_port, "token": meeting.token}
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((meeting.host, meeting.port), timeout=meeting.join_timeout_s) as store:
                store.sendall(json.dumps(hello).encode() + b"\n")
                with store.makefile("rb") as answers:
                    if line := answers.readline():
                        return [int(port) for port in json.loads(line)]
        except OSError:
            pass
        time.sleep(_JOIN_PAUSE_S)
    raise DistStoreError(_missing(meeting, 0))


def _host(meeting: Meeting, own_port: int, deadline: float) -> list[int]:
    ports = {0: own_port}
    guests: list[socket.socket] = []
    with socket.create_server((meeting.host, meeting.port), backlog=meeting.ranks) as store:
        try:
            while len(ports) < meeting.ranks:
                store.settimeout(max(deadline - time.monotonic(), _JOIN_PAUSE_S))
                guest, _ = store.accept()
                guest.settimeout(meeting.join_timeout_s)
                with guest.makefile("rb") as lines:
                    hello = json.loads(lines.readline() or b"{}")
                if hello.get("token") != meeting.token:
                    guest.close()
                    continue
                ports[int(hello["rank"])] = int(hello["port"])
                guests.append(guest)
            table = [ports[rank] for rank in range(meeting.ranks)]
            for guest in guests:
                guest.sendall(json.dumps(table).encode() + b"\n")
        except TimeoutError:
            raise DistStoreError(_missing(meeting, len(ports))) from None
        finally:
            for guest in guests:
                guest.close()
    return table


def _parts(length: int, count: int) -> Sequence[slice]:
    """The indices from 0 to `length` in `count` parts of nearly equal size."""
    bounds = [length * part // count for part in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def _missing(meeting: Meeting, joined: int) -> str:
    seconds = round(meeting.join_timeout_s)
    clients = f" {joined}/{meeting.ranks} clients joined." if joined else ""
    return f"Timed out after {seconds} seconds waiting for clients.{clients}"
