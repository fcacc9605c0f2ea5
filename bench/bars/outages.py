"""A source is away for ten minutes: no finding comes of it, and no line is lost or told twice after it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from structlog.testing import capture_logs

from bench.measures import Limit, Result
from bench.outage_books import Books, Work
from bench.outage_sites import FileSite, MetricSite, Room, StoreSite
from bench.outages import STEPS_S, Outcome, Plan, Rehearsal, Site
from relance.rules import Pack, load_pack
from relance.rules.pack import read_texts
from relance.sources.metrics.presences import GONE_S
from relance.testing.virtual_time import VirtualTime, run_virtual

_OUTAGE_S = 600.0
_BEFORE_S, _AFTER_S = 900.0, 900.0
_QUICK_BEFORE_S, _QUICK_AFTER_S = 120.0, 150.0
WAYS = ("the watcher lives", "the watcher is killed")
_TOLD_S = 60.0
"""People are told of an outage within so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of source, and one way in which it is away."""

    make: Callable[[Room, Path], Site]
    told_s: float = _TOLD_S
    is_read_on: bool = False
    """Whether a watcher that lives through it loses sight of nothing, and so has nothing to tell."""


KINDS: Mapping[str, Kind] = {
    "files that cannot be read": Kind(make=lambda room, root: FileSite(room, root, "fails")),
    "a file system that hangs": Kind(make=lambda room, root: FileSite(room, root, "hangs")),
    "a folder that is moved away": Kind(
        make=lambda room, root: FileSite(room, root, "is moved away"),
        told_s=_OUTAGE_S / 2 + _TOLD_S,
        is_read_on=True,
    ),
    "Loki": Kind(make=lambda room, _: StoreSite(room, "loki", keeps_repeats=False)),
    "VictoriaLogs": Kind(make=lambda room, _: StoreSite(room, "victorialogs", keeps_repeats=True)),
    "a metric store that does not answer": Kind(make=lambda room, _: MetricSite(room, is_starved=False)),
    "a metric store that gets no samples": Kind(
        make=lambda room, _: MetricSite(room, is_starved=True), told_s=GONE_S + _TOLD_S
    ),
}


def measure(*, quick: bool) -> Result:
    """Have each kind of source be away, the watcher living through it, and the watcher being killed in the middle.

    A quick run has each kind be away once, but for one that is read on, and kills the watcher in every second one.
    """
    pack = load_pack(read_texts())
    before_s, after_s = (_QUICK_BEFORE_S, _QUICK_AFTER_S) if quick else (_BEFORE_S, _AFTER_S)
    plan = Plan(before_s=before_s, outage_s=_OUTAGE_S, after_s=after_s)
    outcomes: dict[str, dict[str, Outcome]] = {}
    wrong: list[str] = []
    kinds = {name: kind for name, kind in KINDS.items() if not (quick and kind.is_read_on)}
    for number, (name, kind) in enumerate(kinds.items()):
        for way in WAYS[number % 2 :][:1] if quick else WAYS:
            outcome, failures = rehearsed(kind.make, replace(plan, is_killed=way == WAYS[1]), pack)
            outcomes.setdefault(name, {})[way] = outcome
            wrong += [f"{name}, {way}: {each}" for each in failures]
    return Result(
        name="outages",
        measure="outage of any source for 10 minutes: findings caused by it, lines lost after it",
        limits=tuple(limit for name, ways in outcomes.items() for limit in limits(name, ways)),
        figures={name: {way: _figures(each) for way, each in ways.items()} for name, ways in outcomes.items()},
        wrong=tuple(wrong),
        conditions=(
            f"a whole watcher with the shipped rules and limits on a virtual clock follows {len(STEPS_S)} healthy "
            f"trainings of {', '.join(f'{each:g}' for each in STEPS_S)} s a step, one of them with saves, for "
            f"{before_s:g} s before the outage and {after_s:g} s after it, once living through it and once killed in "
            "the middle without handing over anything, to go on from its checkpoints; files are real ones in a folder "
            "of this machine, log stores are one in memory that drops repeated lines or keeps them, the metric store "
            "is a stand-in over HTTP; of that one trainings have their steps exported and say nothing of them in their "
            "logs, and steps count among what is lost or repeated; the writing goes on through the outage; a folder "
            "that is moved away is read on through the files that are open, and is told of once there are none"
        ),
    )


def rehearsed(make: Callable[[Room, Path], Site], plan: Plan, pack: Pack) -> tuple[Outcome, list[str]]:
    """What comes of one outage, and what the watcher logged as a failure of its own."""
    time = VirtualTime()
    room = Room(time=time, pack=pack, books=Books(), work=Work())
    with tempfile.TemporaryDirectory() as folder, capture_logs() as logged:
        site = make(room, Path(folder))
        try:
            rehearsal = Rehearsal(site, plan, pack, time, room.books)
            outcome = run_virtual(rehearsal.play(), time, lambda: rehearsal.is_over or site.is_busy)
        finally:
            site.close()
    return outcome, sorted({str(each["event"]) for each in logged if each["log_level"] == "error"})


def limits(name: str, ways: Mapping[str, Outcome]) -> tuple[Limit, ...]:
    """The bars on one kind of source, over all ways."""
    kind, outcomes = KINDS[name], ways.values()
    unseen = [each for way, each in ways.items() if way == WAYS[1] or not kind.is_read_on]
    told = [each.told_away_s for each in unseen]
    late_s = max((each for each in told if each is not None), default=None) if None not in told else None
    unsaid = sum(each.unsaid_looks for each in unseen)
    found = (
        Limit(name=f"{name}: findings", value=sum(len(each.findings) for each in outcomes), most=0, unit=""),
        Limit(name=f"{name}: lost", value=sum(each.lost for each in outcomes), most=0, unit=""),
        Limit(name=f"{name}: repeated", value=sum(each.repeated for each in outcomes), most=0, unit=""),
        Limit(
            name=f"{name}: loss told where there is none",
            value=sum(each.alarms_looks for each in outcomes),
            most=0,
            unit="looks",
        ),
    )
    if not unseen:
        return found
    return (
        *found,
        Limit(name=f"{name}: loss told after", value=late_s, most=kind.told_s),
        Limit(name=f"{name}: loss not told", value=unsaid, most=0, unit="looks"),
    )


def _figures(outcome: Outcome) -> dict[str, object]:
    return {
        "written": outcome.written,
        "written_meanwhile": outcome.written_meanwhile,
        "caught_up_s": _rounded(outcome.caught_up_s),
        "told_away_s": _rounded(outcome.told_away_s),
        "alarms_looks": outcome.alarms_looks,
        "findings": [f"{each.detector} {each.certainty.value}: {each.summary}" for each in outcome.findings],
    }


def _rounded(duration_s: float | None) -> float | None:
    return None if duration_s is None else round(duration_s, 1)
