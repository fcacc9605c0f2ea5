"""`relance report`: what observing proved, in a form that an operator can decide on."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import click
from rich.console import Console

from relance.cli.asking import Asking, asks
from relance.cli.screens import Screen, clock
from relance.recovery import wordings
from relance.recovery.figures import Count, Spread
from relance.recovery.proving.values import Agreement, CoverageRow, Ends, Misses, Proofs, Savings, Subject

_SHOWN = 10
"""So many lines of a list; --json has more."""
_MOST_DAYS = 36_500


class Since(click.ParamType[datetime | timedelta]):
    """How far back: a duration such as 30d, or a date such as 2026-11-01, in UTC."""

    name = "when"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime | timedelta:
        """A span or a moment."""
        if isinstance(value, datetime | timedelta):
            return value
        text = str(value)
        span = re.fullmatch(r"(\d{1,5})([hd])", text)
        if span is not None and 0 < int(span[1]) <= _MOST_DAYS:
            return timedelta(**{{"h": "hours", "d": "days"}[span[2]]: int(span[1])})
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{value!r} is neither a span nor a date; write 30d, 12h or 2026-11-01", param, ctx)
        return at if at.tzinfo else at.replace(tzinfo=UTC)


@click.command("report")
@click.option("--since", type=Since(), default="30d", show_default=True, help="A span such as 30d, or a date (UTC).")
@click.option("--cluster", help="Only this cluster.")
@click.option("--partition", help="Only jobs of this partition.")
@asks
def report(ask: Asking, /, since: datetime | timedelta, cluster: str | None, partition: str | None) -> None:
    """Show what observing proved, without labelling anything by hand.

    Would it have ended a job that was alive? How many hours would it have saved against what people did? What did it
    miss, how much did it see, and how often did people decide the same? At the end: which partitions may go from
    observe to act, by figures.
    """
    from relance.ports.clocks import SystemClock

    now = SystemClock().now()
    begin = now - since if isinstance(since, timedelta) else since
    if begin >= now:
        raise click.UsageError("--since lies in the future")
    with _working(begin):
        found = ask.client.report(begin, cluster, partition)
    if ask.screen.as_json:
        ask.screen.data(found)
        return
    show(ask.screen, found)


def show(screen: Screen, found: Proofs) -> None:
    """The whole report for a person."""
    where = ", ".join(part for part in (found.cluster or "all clusters", found.partition or "") if part)
    screen.line(f"{where}: {clock(found.since)} to {clock(found.as_of)} UTC")
    screen.line(
        f"{wordings.count(found.jobs, 'job')}, {wordings.count(found.attempts, 'attempt')}, "
        f"{wordings.count(found.incidents, 'incident')}"
    )
    for part in (_ends, _savings, _misses, _coverage, _agreement):
        screen.line()
        part(screen, found)
    screen.line()
    screen.fact("advised", _counted(found.remedies))
    screen.fact("domains", _counted(found.domains))
    screen.line()
    _promotion(screen, found)


def _ends(screen: Screen, found: Proofs) -> None:
    ends: Ends = found.ends
    screen.line("(a) Would it have ended a job that was alive? (target: never)", "")
    tone = "bad" if ends.false else "warn" if ends.not_known else "good"
    screen.fact("advised", f"{_times(ends.advised)} to end a running attempt ({_counted(ends.kinds)})")
    screen.fact("wrong", f"{_times(ends.false)}: the attempt later made a step", tone)
    if ends.not_known:
        screen.fact("not known", f"{_times(ends.not_known)}: no time of a step is known", "warn")
    if ends.listed:
        screen.table(
            ("job", "attempt", "for", "advised (UTC)", "#step", "made at (UTC)", "advice"),
            (
                (
                    _job(item.subject),
                    str(item.subject.attempt.restart_count + 1),
                    wordings.name(item.kind.value),
                    clock(item.advised_at),
                    "-" if item.step is None else wordings.steps(item.step),
                    clock(item.step_at),
                    item.advice_id,
                )
                for item in ends.listed[:_SHOWN]
            ),
            empty="",
        )


def _savings(screen: Screen, found: Proofs) -> None:
    saved: Savings = found.savings
    screen.line("(b) What would it have saved against restarts by hand?")
    first = f"; in {saved.person_first} of them the person was there first" if saved.person_first else ""
    screen.fact("by hand", f"{_times(saved.restarts_by_hand)} a person restarted what it would have restarted{first}")
    if saved.restarts_by_hand:
        gpus = f", {_hours(saved.gpu_hours)} GPU-hours" if saved.gpus_not_known < saved.restarts_by_hand else ""
        left_out = f" (GPUs of {saved.gpus_not_known} not known)" if gpus and saved.gpus_not_known else ""
        screen.fact("saved", f"{_hours(saved.hours)} h, {_hours(saved.node_hours)} node-hours{gpus}{left_out}")
        screen.fact("each", _spread(saved.saved))
    screen.fact("people took", _spread(saved.hands))
    if saved.ours.count:
        screen.fact("it took", _spread(saved.ours))
    if saved.estimate_hours is not None:
        screen.fact("estimate", f"{_hours(saved.estimate_hours)} h saved by its own restarts, by the median hand")
    if saved.listed:
        screen.table(
            ("job", "it would have (UTC)", "by hand (UTC)", "how", "#saved", "#nodes"),
            (
                (
                    _job(item.subject),
                    clock(item.advised_at),
                    clock(item.hand_at),
                    item.how,
                    wordings.duration(item.saved_s),
                    str(item.node_count),
                )
                for item in saved.listed[:_SHOWN]
            ),
            empty="",
        )


def _misses(screen: Screen, found: Proofs) -> None:
    misses: Misses = found.misses
    screen.line("(c) What did it miss?")
    tone = "warn" if misses.missed or misses.late else ""
    screen.fact(
        "failures",
        f"{misses.failures}, of which {misses.missed} without an incident and {misses.late} found more than 60 s late",
        tone,
    )
    not_known = f"; of {misses.silence_not_known} others no step is known" if misses.silence_not_known else ""
    screen.fact(
        "silent ends",
        f"{misses.silent_ends} cancelled or timed out 30 min or more after the last step, possibly hangs{not_known}",
        "warn" if misses.silent_ends else "",
    )
    if misses.listed_failures or misses.listed_ends:
        screen.table(
            ("job", "attempt", "ended as", "ended (UTC)", "what"),
            (
                *(
                    (
                        _job(item.subject),
                        str(item.subject.attempt.restart_count + 1),
                        wordings.name(item.outcome.value),
                        clock(item.ended_at),
                        "missed"
                        if item.found_after_s is None
                        else f"found {wordings.duration(item.found_after_s)} late",
                    )
                    for item in misses.listed_failures[:_SHOWN]
                ),
                *(
                    (
                        _job(item.subject),
                        str(item.subject.attempt.restart_count + 1),
                        wordings.name(item.outcome.value),
                        clock(item.ended_at),
                        f"{wordings.duration(item.silent_s)} without a step",
                    )
                    for item in misses.listed_ends[:_SHOWN]
                ),
            ),
            empty="",
        )


def _coverage(screen: Screen, found: Proofs) -> None:
    screen.line("(d) How much of what ran did it see?")
    screen.table(
        ("partition", "#attempts", "#hours", "counted in", "#known", "#log read", "#steps recognised", "#kernel logs"),
        (
            (
                row.partition,
                str(row.attempts),
                _hours(row.hours),
                f"{row.unit}-hours",
                _share(row.known / row.hours if row.hours else None),
                _share(row.read_share),
                _share(row.progress_share),
                _share(row.kernel_share),
            )
            for row in _rows(found.coverage)
        ),
        empty="no attempt ran in this time",
    )
    if any(row.known < row.hours for row in found.coverage):
        screen.line(
            "The shares are of what is known: what ran before this was kept, or began just now, is not.", "quiet"
        )


def _agreement(screen: Screen, found: Proofs) -> None:
    same: Agreement = found.agreement
    screen.line("(e) Did people decide the same?")
    share = f" ({_share(same.agreed / same.compared)})" if same.compared else ""
    later = f"; {same.not_yet} ended less than a day ago" if same.not_yet else ""
    screen.fact("the same", f"{same.agreed} of {same.compared}{share}{later}")
    screen.table(
        ("it would", "#people restarted", "#and it went on", "#people left it"),
        (
            (wordings.name(row.advised.value), str(row.restarted), str(row.went_on), str(row.left))
            for row in same.rows
            if row.restarted or row.left
        ),
        empty="nothing to compare yet",
    )
    placed = same.nodes_kept_out + same.nodes_used_again
    if placed:
        screen.fact(
            "its suspects",
            f"in {same.nodes_kept_out} of {placed} restarts by hand they were not used again; "
            f"of the other {same.nodes_used_again}, {same.nodes_failed_again} failed again",
        )
    if same.disproved_stops:
        jobs = ", ".join(_job(item) for item in same.disproved_stops[:_SHOWN])
        screen.fact(
            "wrong stops", f"{len(same.disproved_stops)}: it would have stopped, and a restart went on: {jobs}", "warn"
        )


def _promotion(screen: Screen, found: Proofs) -> None:
    screen.line("From observe to act, by figures: 14 days, 30 incidents, (a) never wrong")
    screen.table(
        ("partition", "#days", "#incidents", "#wrong ends", "what is missing"),
        (
            (
                row.partition,
                f"{row.days:.0f}",
                str(row.incidents),
                str(row.false_ends),
                "; ".join(row.missing) or "nothing of the figures",
            )
            for row in found.promotions
        ),
        empty="no partition had a job in this time",
        sentences=("what is missing",),
    )
    if found.promotions:
        screen.line("What no history can say, and a person has to: " + "; ".join(found.for_a_person), "quiet")


@contextmanager
def _working(begin: datetime) -> Iterator[None]:
    """Say on standard error, where that is a terminal, that the server is at work."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(file=sys.stderr).status(f"reading the history since {clock(begin)} UTC"):
        yield


def _rows(rows: tuple[CoverageRow, ...]) -> Iterable[CoverageRow]:
    """The row over all partitions adds nothing to a single one."""
    return rows[:-1] if len(rows) <= 2 else rows  # noqa: PLR2004 - one partition and all of them


def _job(subject: Subject) -> str:
    return f"{subject.attempt.job.raw_id} {subject.name}"


def _times(number: int) -> str:
    return wordings.count(number, "time")


def _counted(counts: tuple[Count, ...]) -> str:
    return ", ".join(f"{wordings.name(one.name)} {one.number}" for one in counts) or "none"


def _hours(hours: float) -> str:
    return f"{hours:,.1f}".replace(",", " ")


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _spread(spread: Spread) -> str:
    if spread.median_s is None:
        return "nothing was measured"
    median, most = wordings.duration(spread.median_s), wordings.duration(spread.p90_s)
    return f"{median} in the median, {most} in 90 % of {spread.count}"
