"""Whether slurmctld's clock and ours agree: times of both are compared in every decision. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from relance.controllers.slurm.levels import Fitness, Level

WARN_S = 2.0
"""Clocks that are kept in step differ by much less."""
MOST_S = 30.0
"""An advice expires 30 s before Slurm forgets its job (design 4): with more than that it may be too late already."""
_SHOWN = re.compile(rb"^sdiag output at .*\((\d{9,11})\)\s*$", re.MULTILINE)
_REMEDY = "keep both hosts' clocks in step: chrony or ntpd, `chronyc tracking`"


def time_of(answer: bytes) -> int | None:
    """When slurmctld made an answer of `sdiag`, by its own clock in whole seconds since 1970; None: not shown."""
    found = _SHOWN.search(answer)
    return int(found[1]) if found else None


def skew(shown_s: int | None, asked_at: datetime, answered_at: datetime) -> Fitness:
    """What it means that slurmctld showed this time, asked and answered at these times of ours."""
    if shown_s is None:
        text, remedy = "slurmctld's clock is not shown", "see that this account may run sdiag"
        return Fitness(name="clock", level=Level.WARN, text=text, remedy=remedy, read="sdiag")
    behind_s = asked_at.timestamp() - (shown_s + 1.0)  # it may show as much as a second less than it is
    ahead_s = shown_s - answered_at.timestamp()
    apart_s = max(behind_s, ahead_s, 0.0)
    read = f"slurmctld {_clock(shown_s)}, here {answered_at.astimezone(UTC):%H:%M:%S} UTC"
    if apart_s < WARN_S:
        text = "slurmctld's clock and ours agree to the second, as far as can be told"
        return Fitness(name="clock", level=Level.OK, text=text, read=read)
    side = "ahead of" if ahead_s > behind_s else "behind"
    text = f"slurmctld's clock is {apart_s:.0f} s {side} ours"
    if apart_s < MOST_S:
        text += ": times of detection and recovery are wrong by as much"
        return Fitness(name="clock", level=Level.WARN, text=text, remedy=_REMEDY, read=read)
    text += ": until when an ended job may be restarted cannot be told"
    return Fitness(name="clock", level=Level.BLOCKS_ACT, text=text, remedy=_REMEDY, read=read)


def _clock(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"
