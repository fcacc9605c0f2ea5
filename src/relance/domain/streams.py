"""Streams: the units of consistency of the history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.events import Event
from relance.domain.keys import JobKey


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stream:
    """A stream's name: `job/<job key>`, `node/<cluster>/<name>` or `cluster/<name>`."""

    name: str

    @classmethod
    def of_job(cls, job: JobKey) -> Stream:
        """The stream of a job: all its attempts, incidents, advice and actions."""
        return cls(name=f"job/{job}")

    @classmethod
    def of_node(cls, cluster: str, node: str) -> Stream:
        """The stream of a node."""
        return cls(name=f"node/{cluster}/{node}")

    @classmethod
    def of_cluster(cls, cluster: str) -> Stream:
        """The stream of a cluster: stages, storms, source loss, switches."""
        return cls(name=f"cluster/{cluster}")

    @property
    def kind(self) -> str:
        """`job`, `node` or `cluster`."""
        return self.name.split("/", 1)[0]

    @property
    def subject(self) -> str:
        """The name without its kind."""
        return self.name.split("/", 1)[1]

    def __str__(self) -> str:
        """The name."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event as stored: gap-free position in commit order, stream, version in the stream (from 1), when stored."""

    position: int
    stream: Stream
    version: int
    recorded_at: datetime
    event: Event
