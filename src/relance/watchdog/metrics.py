"""The watchdog's metrics in Prometheus' text form, and whether it is well. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from relance.domain.stages import Stage
from relance.watchdog.alarms import Subject
from relance.watchdog.watches import Watch

_PATIENCE_S = 30.0
"""A round may take so long beyond a few of its intervals, as the scheduler may be slow."""
_ROUNDS = 3
_HELP = {
    "rounds_total": ("counter", "Rounds since the start."),
    "round_timestamp_seconds": ("gauge", "When the newest round ended."),
    "stage": ("gauge", "1 at the stage at which it watches."),
    "ledger_usable": ("gauge", "1 where the controller's ledger is there and can be relied on."),
    "controller_sign_age_seconds": ("gauge", "Since the controller's newest sign of life."),
    "taken": ("gauge", "Attempts that the ledger shows as taken and not decided."),
    "overdue_holds": ("gauge", "Jobs that the controller holds and has not gone on with."),
    "scheduler_answers": ("gauge", "1 where the scheduler answered when it was asked last."),
    "spool_untold": ("gauge", "Deeds that no controller has taken to the server yet."),
    "alarm": ("gauge", "1 for each subject of which something is wrong."),
    "deeds_total": ("counter", "Deeds by verb and what became of them, since the start."),
}


def metrics_text(watches: Iterable[Watch], now: datetime) -> str:
    """All metrics of all clusters."""
    lines: dict[str, list[str]] = {name: [] for name in _HELP}
    for watch in watches:
        for name, labels, value in _of(watch, now):
            named = {"cluster": watch.cluster.name, **labels}
            inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in named.items())
            lines[name].append(f"relance_watchdog_{name}{{{inner}}} {value:g}")
    found: list[str] = []
    for name, (kind, words) in _HELP.items():
        if lines[name]:
            full = f"relance_watchdog_{name}"
            found += [f"# HELP {full} {words}", f"# TYPE {full} {kind}", *lines[name]]
    return "\n".join(found) + "\n"


def health_text(watches: Iterable[Watch], every_s: float, now: datetime) -> tuple[bool, str]:
    """Whether every cluster's rounds go on, and a line for each: its alarms, or that all is well."""
    is_well, lines = True, []
    for watch in watches:
        age_s = None if watch.round_at is None else (now - watch.round_at).total_seconds()
        is_late = age_s is None or age_s > _ROUNDS * every_s + _PATIENCE_S
        is_well = is_well and not is_late
        words = [f"{subject.value}: {text}" for subject, text in dict(watch.alarms.now).items()]
        if is_late:
            words.insert(0, "no round yet" if age_s is None else f"the newest round was {age_s:.0f} s ago")
        lines.append(f"{watch.cluster.name}: {'; '.join(words) or 'well'}")
    return is_well, "\n".join(lines) + "\n"


def _of(watch: Watch, now: datetime) -> Iterator[tuple[str, dict[str, str], float]]:
    yield "rounds_total", {}, watch.rounds
    if watch.round_at is not None:
        yield "round_timestamp_seconds", {}, round(watch.round_at.timestamp(), 3)
    for stage in Stage:
        yield "stage", {"stage": stage.value}, stage is watch.cluster.rules.stage
    ledger = watch.ledger
    yield "ledger_usable", {}, not ledger.problem
    if ledger.alive_at is not None:
        yield "controller_sign_age_seconds", {}, round((now - ledger.alive_at).total_seconds(), 1)
    yield "taken", {}, len(ledger.state.left_to_the_watchdog)
    yield "overdue_holds", {}, watch.overdue
    yield "scheduler_answers", {}, Subject.SCHEDULER not in watch.alarms.now
    yield "spool_untold", {}, watch.spool.untold
    for subject in Subject:
        yield "alarm", {"subject": subject.value}, subject in watch.alarms.now
    for (verb, state), count in sorted(dict(watch.alarms.counts).items()):
        yield "deeds_total", {"verb": verb, "state": state}, count


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
