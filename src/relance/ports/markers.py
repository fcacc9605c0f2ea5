"""The port to what sends a line through a site's own path of logs: a small job of our own."""

from __future__ import annotations

from typing import Final, Protocol

MARKER: Final = "relance-marker"
"""The name of the job, and the word with which its line begins."""


class MarkerJob(Protocol):
    """A job that prints one line and ends within a second."""

    async def submit(self, mark: str, give_up_s: float) -> str:
        """Submit it, and give its raw id. It prints `relance-marker MARK TIME NODE`, TIME in seconds since 1970.

        The scheduler forgets it by itself where it cannot start within about `give_up_s` seconds. Raises
        SchedulerRefusedError, and SchedulerSilentError when it is not known whether it was submitted.
        """
        ...

    async def withdraw(self, raw_id: str) -> None:
        """Cancel it, for good. Raises SchedulerError."""
        ...

    async def close(self) -> None:
        """Give back what is held; may be called twice."""
        ...
