"""The port to small jobs of our own: those by which a site proves, on its own cluster, what Relance does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnJob:
    """A small job of our own.

    Attributes:
        script: Absolute path of its script, which the nodes can read.
        arguments: What the script is given.
        output: Absolute path of its output; each attempt appends.
        comment: What it asks of Relance; empty: nothing.
        partition: Where it runs; empty: the scheduler's own choice.
        nodes: How many nodes it has.
        limit_min: Its time limit, in minutes.
    """

    name: str
    script: str
    arguments: tuple[str, ...]
    output: str
    comment: str = ""
    partition: str = ""
    nodes: int = 1
    limit_min: int = 15


class OwnJobs(Protocol):
    """Submits such jobs, as the user who runs the command, and takes them back."""

    async def submit(self, job: OwnJob) -> str:
        """Submit it, and give its raw id.

        Raises SchedulerRefusedError, and SchedulerSilentError when it is not known whether it was submitted.
        """
        ...

    async def cancel(self, raw_id: str) -> None:
        """Cancel it; one that is over or gone stays so. Raises SchedulerError."""
        ...

    async def close(self) -> None:
        """Give back what is held; may be called twice."""
        ...
