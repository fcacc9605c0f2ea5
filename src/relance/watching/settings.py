"""What a watcher is called, and how often it hands over."""

from __future__ import annotations

from dataclasses import dataclass

from relance.domain.limits import DivergenceLimits, HangLimits, SlowdownLimits

_SHIPPED = HangLimits()
_SLOWDOWN = SlowdownLimits()
_DIVERGENCE = DivergenceLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSettings:
    """A watcher's name, limits and intervals. Times in seconds.

    `holder` names this watcher in what it hands over; the same after a restart.
    """

    cluster: str
    holder: str
    hang: HangLimits = _SHIPPED
    slowdown: SlowdownLimits = _SLOWDOWN
    divergence: DivergenceLimits = _DIVERGENCE
    submit_s: float = 1.0
    """Progress is handed over at most this often; a finding is handed over at once."""
    checkpoint_s: float = 10.0
    """The checkpoint of an attempt of which nothing is wrong is handed over at most this often: what came since is read
    again after a crash of the watcher."""
    unkept_bytes: int = 1024 * 1024
    """So much is read beyond the last checkpoint; then it is handed over, too."""
    sight_s: float = 10.0
    """How often the server is told how the sources stand."""
    heartbeat_s: float = 10.0
    """An attempt of which there is nothing new; of one with an incident every `submit_s`."""
    refresh_s: float = 5.0
    """The longest wait for news from the server."""
    refresh_min_s: float = 0.2
    retry_first_s: float = 0.5
    retry_most_s: float = 15.0
    """While the server is away, doubling."""
    keep_s: float = 600.0
    """How long what an attempt that is no longer followed had found is kept for a server that is away."""
    ahead_bytes: int = 8 * 1024 * 1024
    """So much of one attempt is read beyond what was handed over; then its files wait."""
    findings_ahead: int = 32
    at_once: int = 8
    """Attempts that are read at the same time."""
    tail_bytes: int = 256 * 1024
    batch_bytes: int = 1024 * 1024
    """Attachments in one batch."""
