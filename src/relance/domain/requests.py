"""Requests: what a named person asks Relance to do to a job or a node, beside any advice, and what came of it.

A request is carried out by the cluster's controller, once, or not at all; what stands in its way is said. Policy makes
none: to keep a node from everybody is a person's decision (operators.md 3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from relance.domain.advice import ActionEnd, Effect
from relance.domain.keys import AttemptKey, JobKey, stable_id

GOOD_FOR = timedelta(minutes=10)
"""A request that no controller has begun by then is void: the person asked about the cluster as it was then."""
OURSELVES = "relance"
"""In place of a person's name, where Relance itself asks for something, switches a job or ends a storm."""
BY_US = " (by Relance)"
"""Behind the name of a person for whom Relance did something, where others' changes are told."""
MARK = "relance"
"""What the names of our reservations begin with, and the reasons of our drains: no vendor acts on it (peers.md N8)."""
_RESERVATION = re.compile(rf"{MARK}-[0-9a-f]{{20}}\Z", re.ASCII)
_DRAIN = re.compile(rf"{MARK}: [A-Za-z0-9 .,_/@+-]{{1,200}} \(req-[0-9a-f]{{20}}\)\Z", re.ASCII)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 .,_/@+-]+")
_REASON_CHARS = 120
_NAME_CHARS = 40


class RequestKind(Enum):
    """What a site lets people ask for, by the name of its setting under `actions`."""

    CANCEL_JOBS = "cancel_jobs"
    """End a job for good. It cannot be undone."""
    HOLD_JOBS = "hold_jobs"
    """Keep a waiting job from starting, and let a held one go."""
    RESERVE_NODES = "reserve_nodes"
    """Keep new jobs off a node by a maintenance reservation."""
    DRAIN_NODES = "drain_nodes"
    """Keep new jobs off a node by its state."""
    ARM_JOBS = "arm_jobs"
    """Let a running job be requeued that was submitted so that it may not, and take that back. Nobody has to allow it:
    it is asked for by Relance alone, where the job's own comment or a setting of the site says so."""


class RequestVerb(Enum):
    """What is asked for."""

    CANCEL = "cancel"
    """End the job for good."""
    HOLD = "hold"
    """Keep the waiting job from starting."""
    RELEASE = "release"
    """Let the held job start."""
    QUARANTINE = "quarantine"
    """Keep new jobs off the node by a maintenance reservation; what runs there goes on."""
    DRAIN = "drain"
    """Keep new jobs off the node by its state; what runs there goes on."""
    RETURN = "return"
    """Take a quarantine or a drain of ours back."""
    ARM = "arm"
    """Let the running job be requeued."""
    DISARM = "disarm"
    """Take that back: the running job may not be requeued, as it was submitted."""

    @property
    def is_of_a_node(self) -> bool:
        """Whether it is about a node; else about a job."""
        return self in (RequestVerb.QUARANTINE, RequestVerb.DRAIN, RequestVerb.RETURN)

    @property
    def keeps_out(self) -> bool:
        """Whether it keeps new jobs off a node until it is taken back or its time is over."""
        return self in (RequestVerb.QUARANTINE, RequestVerb.DRAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one person asked for.

    `restart_count` is that of the attempt that was shown, for a job: another one is not touched. `until` is when a
    quarantine or a drain ends. `mark` is the name of the reservation, or the reason that the node bears: by it alone
    it is known as ours later. A RETURN carries the mark, the way (`undoes_verb`) and the id of what it undoes.
    """

    id: str
    verb: RequestVerb
    cluster: str
    reason: str
    by: str
    at: datetime
    expires_at: datetime
    job: JobKey | None = None
    restart_count: int = 0
    node: str = ""
    until: datetime | None = None
    mark: str = ""
    undoes: str = ""
    undoes_verb: RequestVerb | None = None

    @property
    def kind(self) -> RequestKind:
        """Which setting allows it."""
        return _KINDS[self.undoes_verb if self.verb is RequestVerb.RETURN and self.undoes_verb else self.verb]

    @property
    def subject(self) -> str:
        """What it is about, in words."""
        return f"node {self.node}" if self.verb.is_of_a_node else f"job {self.job.raw_id if self.job else '?'}"


_KINDS = {
    RequestVerb.CANCEL: RequestKind.CANCEL_JOBS,
    RequestVerb.HOLD: RequestKind.HOLD_JOBS,
    RequestVerb.RELEASE: RequestKind.HOLD_JOBS,
    RequestVerb.QUARANTINE: RequestKind.RESERVE_NODES,
    RequestVerb.DRAIN: RequestKind.DRAIN_NODES,
    RequestVerb.RETURN: RequestKind.RESERVE_NODES,
    RequestVerb.ARM: RequestKind.ARM_JOBS,
    RequestVerb.DISARM: RequestKind.ARM_JOBS,
}


def reservation_name(request_id: str) -> str:
    """The name of a request's reservation."""
    return f"{MARK}-{request_id.rpartition('-')[2]}"


def drain_reason(request_id: str, by: str, reason: str) -> str:
    """The reason that a request writes onto a node: who, why in plain signs, and which request.

    No sign is left with which a vendor's controller is told to act, such as the colon of `Action:Reboot`.
    """
    who = _plain(by)[:_NAME_CHARS].strip() or "somebody"
    why = _plain(reason)[:_REASON_CHARS].strip() or "no reason given"
    return f"{MARK}: {who}, {why} ({request_id})"


def is_reservation(name: str) -> bool:
    """Whether a reservation bears a name that only we give."""
    return _RESERVATION.match(name) is not None


def is_drain_reason(text: str) -> bool:
    """Whether a text has the form of the reasons that we write."""
    return _DRAIN.match(text) is not None


def request_id(cluster: str, subject: str, verb: RequestVerb, by: str, at: datetime) -> str:
    """The id of a request."""
    return stable_id("req", cluster, subject, verb.value, by, at.isoformat())


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """A request as the history knows it.

    `end` None: nobody has told yet what came of it. `over_at` is when what it did was undone, ran out, or was changed
    by somebody else; `over_by` who or what that was.
    """

    request: Request
    started_at: datetime | None = None
    holder: str = ""
    effect: Effect | None = None
    end: ActionEnd | None = None
    ended_at: datetime | None = None
    reason: str = ""
    over_at: datetime | None = None
    over_by: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it is still to be carried out or told of."""
        return self.end is None

    @property
    def is_in_force(self) -> bool:
        """Whether what it did stands, as far as it is known."""
        return self.end is ActionEnd.SUCCEEDED and self.over_at is None


def asker_of(requests: tuple[RequestRecord, ...], verb: RequestVerb, restart_count: int) -> str | None:
    """The person for whom Relance did this to that attempt of a job; None: it did not, as far as is known."""
    done = (
        item.request.by
        for item in reversed(requests)
        if (item.request.verb, item.request.restart_count) == (verb, restart_count)
        and item.started_at is not None
        and item.end is not ActionEnd.ABANDONED
    )
    return next(done, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOrder:
    """A request for the controller. `why_not` says why it may not begin now, empty when nothing speaks against it.

    With `started_at` it was begun by `started_by`, and nobody has told yet what came of it.
    """

    request: Request
    why_not: str = ""
    started_by: str = ""
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClaim:
    """A controller's wish to carry a request out now: which, by whom, under which lease, and by what commands."""

    request: Request
    holder: str
    lease_epoch: int
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReport:
    """What came of a request; told again it changes nothing."""

    request: Request
    end: ActionEnd
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBegan:
    """A line of the ledger: the command of this request is about to be sent."""

    request: Request
    effect: Effect
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettled:
    """A line of the ledger: what came of it."""

    request_id: str
    end: ActionEnd
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReported:
    """A line of the ledger: the server has what came of it."""

    request_id: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestProgress:
    """A request as the ledger tells it, until the server has what came of it."""

    began: RequestBegan
    settled: RequestSettled | None = None


RequestEntry = RequestBegan | RequestSettled | RequestReported


def decided_by(entry: RequestEntry) -> tuple[str, str]:
    """The attempt (its key as text) on which a person decided with this entry, and what; empty: none."""
    if not isinstance(entry, RequestBegan) or entry.request.verb not in (RequestVerb.HOLD, RequestVerb.CANCEL):
        return "", ""
    request = entry.request
    attempt = AttemptKey(job=request.job, restart_count=request.restart_count) if request.job is not None else ""
    return str(attempt), f"{request.verb.value}: asked for by {request.by}"


def with_entry(known: Mapping[str, RequestProgress], entry: RequestEntry) -> Mapping[str, RequestProgress]:
    """What a ledger knows of requests after one more line."""
    match entry:
        case RequestBegan():
            key = entry.request.id
            return {**known, key: known.get(key) or RequestProgress(began=entry)}
        case RequestSettled():
            before = known.get(entry.request_id)
            return {**known, entry.request_id: replace(before, settled=entry)} if before is not None else known
        case RequestReported():
            return {key: item for key, item in known.items() if key != entry.request_id}


def entries_of(progress: RequestProgress) -> tuple[RequestEntry, ...]:
    """The lines that a request comes to."""
    return (progress.began, progress.settled) if progress.settled is not None else (progress.began,)


def _plain(text: str) -> str:
    return " ".join(_NOT_PLAIN.sub(" ", text).split())
