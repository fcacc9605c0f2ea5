"""A lease, counted by its holder (design 10): on the own monotonic clock, from before the renewal was sent. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from relance.domain.advice import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A lease with the marks by which it is counted, on the holder's monotonic clock, in seconds.

    The server counts from when it answered, which is later: here it always runs out first.
    """

    lease: Lease
    renewed_s: float
    """From before the newest renewal was sent."""
    held_since_s: float
    """From when on it was held without a gap, under this epoch."""

    def left_s(self, now_s: float) -> float:
        """How long it lasts; 0 when it is not held."""
        if not self.lease.granted:
            return 0.0
        return max(0.0, self.renewed_s + self.lease.duration_s - now_s)


def renewed(before: HeldLease | None, lease: Lease, asked_s: float) -> HeldLease:
    """The lease after an answer to a request sent at `asked_s`."""
    same = before is not None and before.lease.granted and lease.granted and before.lease.epoch == lease.epoch
    unbroken = before is not None and same and before.left_s(asked_s) > 0
    since = before.held_since_s if before is not None and unbroken else asked_s
    return HeldLease(lease=lease, renewed_s=asked_s, held_since_s=since)
