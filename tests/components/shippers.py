"""What ships lines of files into log stores: a thread that follows the files of a folder, as a site's agent does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from relance.ports.clocks import SystemClock

POLL_S = 0.1
_NS = 1_000_000_000


class Pushed(Protocol):
    """A store that takes lines."""

    def push(self, labels: Mapping[str, str], lines: Sequence[tuple[int, str]]) -> None:
        """Store lines of one stream, each with its time in nanoseconds."""


@contextmanager
def shipping(
    folder: Path, glob: str, labels: Callable[[Path], Mapping[str, str]], *stores: Pushed
) -> Iterator[threading.Event]:  # fmt: skip
    """Push what files of a folder have and get, each line once, with the time at which it was read.

    What is given is set once a line was pushed.
    """
    over, shipped = threading.Event(), threading.Event()
    read: dict[Path, int] = {}
    problems: list[Exception] = []

    def ship() -> None:
        while not over.wait(POLL_S):
            for path in sorted(folder.glob(glob)):
                text = path.read_text(encoding="utf-8")
                whole = text.rfind("\n") + 1
                new = text[read.get(path, 0) : whole].splitlines()
                read[path] = whole
                now = int(SystemClock().now().timestamp() * _NS)
                if new:
                    for store in stores:
                        store.push(labels(path), [(now + number, line) for number, line in enumerate(new)])
                    shipped.set()

    def run() -> None:
        try:
            ship()
        except Exception as error:  # noqa: BLE001 - told at the end
            problems.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield shipped
    finally:
        over.set()
        thread.join(10.0)
    assert problems == []
