"""A source is away for ten minutes: no finding comes of it, and no line is lost or told twice after it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from structlog.testing import capture_logs

from bench.measures import Limit, Result
from bench.outage_books import Books, Work
from bench.outage_sites import FileSite, MetricSite, Room, StoreSite
from bench.outages import STEPS_S, Outcome, Plan, Rehearsal, Site
from relance.rules import Pack, load_pack
from relance.rules.pack import read_texts
from relance.testing.virtual_time import VirtualTime, run_virtual

_OUTAGE_S = 600.0
_AROUND_S, _QUICK_AROUND_S = 900.0, 200.0
"""How long trainings are watched before an outage, and after it."""
_TOLD_S = 60.0
"""People are told of an outage within so long."""
_SITES: Mapping[str, Callable[[Room, Path], Site]] = {
    "files that cannot be read": lambda room, root: FileSite(room, root, "fails"),
    "a file system that hangs": lambda room, root: FileSite(room, root, "hangs"),
    "a folder that is moved away": lambda room, root: FileSite(room, root, "is moved away"),
    "Loki": lambda room, _: StoreSite(room, "loki", keeps_repeats=False),
    "VictoriaLogs": lambda room, _: StoreSite(room, "victorialogs", keeps_repeats=True),
    "a metric store that does not answer": lambda room, _: MetricSite(room, is_starved=False),
    "a metric store that gets no samples": lambda room, _: MetricSite(room, is_starved=True),
}
_KILLED = "; the watcher is killed meanwhile"


def measure(*, quick: bool) -> Result:
    """Have each kind of source be away, the watcher living through it, and the watcher being killed in the middle."""
    pack = load_pack(read_texts())
    around_s = _QUICK_AROUND_S if quick else _AROUND_S
    outcomes: dict[str, Outcome] = {}
    wrong: list[str] = []
    for name, site in _SITES.items():
        for is_killed in (False, True):
            plan = Plan(before_s=around_s, outage_s=_OUTAGE_S, after_s=around_s, is_killed=is_killed)
            title = name + _KILLED * is_killed
            outcomes[title], failures = rehearsed(site, plan, pack)
            wrong += [f"{title}: {each}" for each in failures]
    return Result(
        name="outages",
        measure="outage of any source for 10 minutes: findings caused by it, lines lost after it",
        limits=tuple(limit for title, outcome in outcomes.items() for limit in _limits(title, outcome)),
        figures={title: _figures(outcome) for title, outcome in outcomes.items()},
        wrong=tuple(wrong),
        conditions=(
            f"a whole watcher with the shipped rules and limits on a virtual clock follows {len(STEPS_S)} healthy "
            f"trainings of {', '.join(f'{each:g}' for each in STEPS_S)} s a step, one of them with saves, for "
            f"{around_s:g} s before and after the outage; files are real ones in a folder of this machine; the log "
            "stores are one in memory that keeps repeated lines or not; the metric store is a stand-in over HTTP, "
            "trainings export their steps to it and their logs say nothing of steps, and what is lost or repeated "
            "counts steps, too; the writing goes on through the outage; a watcher that is killed hands over nothing "
            "more and goes on from its checkpoints"
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


def _limits(title: str, outcome: Outcome) -> tuple[Limit, ...]:
    return (
        Limit(name=f"{title}: findings", value=len(outcome.findings), most=0, unit=""),
        Limit(name=f"{title}: lost", value=outcome.lost, most=0, unit=""),
        Limit(name=f"{title}: repeated", value=outcome.repeated, most=0, unit=""),
        Limit(name=f"{title}: told after", value=outcome.told_away_s, most=_TOLD_S),
        Limit(name=f"{title}: said to be well", value=outcome.unsaid_looks, most=0, unit="looks"),
    )


def _figures(outcome: Outcome) -> dict[str, object]:
    return {
        "written": outcome.written,
        "written_meanwhile": outcome.written_meanwhile,
        "caught_up_s": outcome.caught_up_s,
        "told_away_s": outcome.told_away_s,
        "alarms_looks": outcome.alarms_looks,
        "findings": [f"{each.detector} {each.certainty.value}: {each.summary}" for each in outcome.findings],
    }
