"""Who may begin something on a cluster now: who holds its lease, and what the controller says that keeps it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.advice import Lease
from relance.policy import LeaseSeen
from relance.recovery import wordings

ASKED_AT_CLAIM = LeaseSeen(held=None, words="asked when a controller claims")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLease:
    """The lease that this server gave last on a cluster."""

    lease: Lease
    at: datetime


def lease_seen(given: GivenLease | None, now: datetime) -> LeaseSeen:
    """Whether a controller holds the lease now, as far as this server knows."""
    if given is None:
        return ASKED_AT_CLAIM
    holder, until = given.lease.holder, given.at + timedelta(seconds=given.lease.duration_s)
    if now < until:
        return LeaseSeen(held=True, words=f"{holder} holds the lease; the claim asks again")
    ago = wordings.duration((now - given.at).total_seconds())
    return LeaseSeen(
        held=False,
        words=f"no controller holds the lease: {holder} renewed it {ago} ago; nothing begins until one asks again, and "
        "what has begun is finished",
    )


def holder_of(session: str) -> str:
    """The controller that a report's session belongs to."""
    return session.rsplit("/", 1)[0]
