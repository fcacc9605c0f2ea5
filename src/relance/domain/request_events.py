"""Events of requests, and what they come to in the record of a job or a node. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from relance.domain.advice import ActionEnd, Effect
from relance.domain.requests import Request, RequestRecord, RequestVerb

KEPT = 50
"""So many requests of a job or node are kept in its record, the newest, and each that is open or keeps a node out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequested:
    """A named person asked for something to be done to this job or node; `relance` asks for what has run out."""

    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStarted:
    """A controller was let carry it out; it notes it in its ledger and sends the command.

    `verb` and `by` are those of the request.
    """

    request_id: str
    verb: RequestVerb
    by: str
    effect: Effect
    holder: str
    lease_epoch: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnded:
    """It is settled what came of it: carried out and read back, refused, not known, or nothing done."""

    request_id: str
    verb: RequestVerb
    by: str
    end: ActionEnd
    reason: str
    at: datetime


RequestEvent = ActionRequested | RequestStarted | RequestEnded


def with_request(known: tuple[RequestRecord, ...], event: RequestEvent) -> tuple[RequestRecord, ...]:
    """What is known of a subject's requests after one more event."""
    match event:
        case ActionRequested():
            if any(item.request.id == event.request.id for item in known):
                return known
            return _bounded((*known, RequestRecord(request=event.request)))
        case RequestStarted():
            return tuple(
                replace(item, started_at=event.at, holder=event.holder, effect=event.effect)
                if item.request.id == event.request_id
                else item
                for item in known
            )
        case RequestEnded():
            return _ended(known, event)


def without_hold(known: tuple[RequestRecord, ...], by: str, at: datetime | None) -> tuple[RequestRecord, ...]:
    """What is known once a job that we held was let go by somebody else."""
    return tuple(
        replace(item, over_at=at or item.ended_at, over_by=by)
        if item.request.verb is RequestVerb.HOLD and item.is_in_force
        else item
        for item in known
    )


def without_keeping_out(known: tuple[RequestRecord, ...], by: str, at: datetime) -> tuple[RequestRecord, ...]:
    """What is known once nothing of ours keeps the node from anybody any more."""
    return tuple(
        replace(item, over_at=at, over_by=by) if item.request.verb.keeps_out and item.is_in_force else item
        for item in known
    )


def _ended(known: tuple[RequestRecord, ...], event: RequestEnded) -> tuple[RequestRecord, ...]:
    ended = next((item for item in known if item.request.id == event.request_id), None)
    # What looked undone may show after all: a command may arrive late. What was done is settled.
    if ended is None or ended.end is ActionEnd.SUCCEEDED:
        return known
    undone = ended.request.undoes if event.end is ActionEnd.SUCCEEDED else ""
    return tuple(
        replace(item, end=event.end, ended_at=event.at, reason=event.reason)
        if item is ended
        else replace(item, over_at=event.at, over_by=ended.request.by)
        if undone and item.request.id == undone and item.is_in_force
        else item
        for item in known
    )


def _bounded(known: tuple[RequestRecord, ...]) -> tuple[RequestRecord, ...]:
    old = known[:-KEPT]
    return (
        *(item for item in old if item.is_open or (item.request.verb.keeps_out and item.is_in_force)),
        *known[-KEPT:],
    )
