"""Milestones of an incident and the durations between them (design 9)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """A UTC time with the clock that gave it and that clock's resolution in seconds."""

    at: datetime
    clock: str
    """Which clock: `server`, `watcher`, `controller`, `scheduler`, `log`, `injector`."""
    resolution_s: float = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestones:
    """When each thing happened in one incident; None where it has not, or is not known."""

    fault: Stamp | None = None
    """Injected, or the first evidence."""
    symptom: Stamp | None = None
    """Progress stopped."""
    detect: Stamp | None = None
    """The server stored the finding."""
    attribute: Stamp | None = None
    """The verdict was stored."""
    advise: Stamp | None = None
    """The advice was stored."""
    act: Stamp | None = None
    """The scheduler accepted."""
    running: Stamp | None = None
    """The new attempt had run for 2 s."""
    step: Stamp | None = None
    """The new attempt's first step."""
    progress: Stamp | None = None
    """The first step beyond the highest ever."""


def seconds_between(earlier: Stamp | None, later: Stamp | None) -> float | None:
    """Seconds from one milestone to another; None when either is unknown."""
    if earlier is None or later is None:
        return None
    return (later.at - earlier.at).total_seconds()


def time_to_detect_s(times: Milestones) -> float | None:
    """MTTD's term: t_detect - t_symptom (design 9)."""
    return seconds_between(times.symptom, times.detect)


def time_to_action_s(times: Milestones) -> float | None:
    """Time to action: t_act - t_symptom (design 9)."""
    return seconds_between(times.symptom, times.act)


def time_to_step_s(times: Milestones) -> float | None:
    """MTTR's term: t_step - t_symptom (design 9)."""
    return seconds_between(times.symptom, times.step)


def time_to_progress_s(times: Milestones) -> float | None:
    """MTTR up to new work: t_progress - t_symptom (design 9)."""
    return seconds_between(times.symptom, times.progress)
