"""The verbs that list things."""

from __future__ import annotations

from datetime import timedelta

import click

from relance.cli.asking import Asking, Duration, asks
from relance.cli.screens import clock, shown
from relance.recovery import wordings
from relance.recovery.figures import KindFigures, Spread
from relance.recovery.rows import JobRow
from relance.recovery.tones import tone


@click.command("jobs")
@click.option("--cluster", help="Only jobs of this cluster.")
@click.option("--user", help="Only jobs of this user.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many.")
@asks
def jobs(ask: Asking, /, cluster: str | None, user: str | None, limit: int) -> None:
    """List jobs, most recently changed first."""
    rows = ask.client.jobs(cluster, user, limit)
    if ask.screen.as_json:
        ask.screen.data(rows)
        return
    ask.screen.table(
        ("job", "name", "user", "state", "#step", "#attempt", "stage", "in short"),
        (
            (
                row.job.raw_id,
                row.name,
                row.user,
                shown(row.state.value, tone(row.state)),
                _step(row),
                str(row.restart_count + 1),
                shown(row.stage.stage.value, tone(row.stage.stage)),
                row.headline,
            )
            for row in rows
        ),
        empty="no job was seen yet",
        sentences=("in short",),
    )


def _step(row: JobRow) -> str:
    if row.step is None:
        return "-"
    total = f"/{wordings.steps(row.progress.total_steps)}" if row.progress and row.progress.total_steps else ""
    return f"{wordings.steps(row.step)}{total}"


@click.command("incidents")
@click.option("--open", "open_only", is_flag=True, help="Only those that have not ended.")
@click.option("--cluster", help="Only incidents of this cluster.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@asks
def incidents(ask: Asking, /, open_only: bool, cluster: str | None, limit: int) -> None:  # noqa: FBT001 - an option
    """List incidents, newest first."""
    items = ask.client.incidents(open_only=open_only, cluster=cluster, limit=limit)
    if ask.screen.as_json:
        ask.screen.data(items)
        return
    ask.screen.table(
        ("incident", "opened (UTC)", "job", "user", "what it is", "suspects", "state", "what happens next"),
        (
            (
                item.id,
                clock(item.opened_at),
                f"{item.job.raw_id} {item.name}",
                item.user,
                wordings.name(item.cause) or ("not judged" if item.end else "not judged yet"),
                wordings.nodes(item.suspects) if item.suspects else "-",
                shown(wordings.name((item.end or item.state).value), tone(item.end or item.state)),
                item.next,
            )
            for item in items
        ),
        empty="no incident is open" if open_only else "no incident so far",
        sentences=("what happens next",),
    )


@click.command("advice")
@click.option("--cluster", help="Only advice on jobs of this cluster.")
@asks
def advice(ask: Asking, /, cluster: str | None) -> None:
    """List the advice in force, and what each waits for."""
    rows = ask.client.advice(cluster)
    if ask.screen.as_json:
        ask.screen.data(rows)
        return
    ask.screen.table(
        ("advice", "job", "user", "what", "why", "stage", "good until (UTC)", "waits for"),
        (
            (
                row.id,
                f"{row.job.raw_id} {row.name}",
                row.user,
                f"{'hold, then ' if row.hold else ''}{row.wording}",
                "; ".join(row.reasons),
                shown(row.stage.stage.value, tone(row.stage.stage)),
                clock(row.expires_at),
                shown(row.waits_for or "-", "busy" if row.needs_approval else ""),
            )
            for row in rows
        ),
        empty="no advice is in force",
        sentences=("what", "why", "waits for"),
    )


@click.command("nodes")
@click.option("--cluster", help="Only nodes of this cluster.")
@click.option("--all", "every", is_flag=True, help="Also those without any mark.")
@asks
def nodes(ask: Asking, /, cluster: str | None, every: bool) -> None:  # noqa: FBT001 - an option
    """List nodes that are down, kept out or suspected; with --all, all of them."""
    rows = ask.client.nodes(cluster)
    if ask.screen.as_json:
        ask.screen.data(rows)
        return
    ask.screen.table(
        ("node", "cluster", "state", "reason", "jobs", "kept out", "suspected"),
        (
            (
                row.node,
                row.cluster,
                shown(row.state.value, tone(row.state)),
                "; ".join(text for text in (row.reason, row.expected) if text) or "-",
                ", ".join(row.jobs) or "-",
                "; ".join(
                    f"{'for job ' + item.job.split('/')[1] if item.job else 'for all'}"
                    f"{f' until {clock(item.until)}' if item.until else ''}: {item.reason}"
                    for item in row.exclusions
                )
                or "-",
                f"{wordings.count(len(row.suspicions), 'time')}, last {clock(row.suspicions[-1][1])}"
                if row.suspicions
                else "-",
            )
            for row in rows
            if every or not row.state.takes_work or row.exclusions or row.suspicions
        ),
        empty="no node is down, kept out or suspected" if rows else "no node is known yet",
        sentences=("reason", "jobs", "kept out", "suspected"),
    )


@click.command("history")
@click.option("--after", type=click.IntRange(0), help="Only events beyond this position.")
@click.option("--job", help="Only events of this job (key, id or name).")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many.")
@asks
def history(ask: Asking, /, after: int | None, job: str | None, limit: int) -> None:
    """List events in the order in which they were stored: the newest, or those beyond a position."""
    rows = ask.client.job_history(job)[-limit:] if job else ask.client.history(after, limit)
    if ask.screen.as_json:
        ask.screen.data(rows)
        return
    ask.screen.table(
        ("#position", "at (UTC)", "about", "event", "what", "detail"),
        ((str(row.position), clock(row.at), row.stream, row.event, row.title, row.detail) for row in rows),
        empty="nothing has happened",
        sentences=("detail",),
    )


@click.command("figures")
@click.option("--last", "last_s", type=Duration(), default="30d", show_default=True, help="How far to look back.")
@click.option("--cluster", help="Only incidents of this cluster.")
@asks
def figures(ask: Asking, /, last_s: float, cluster: str | None) -> None:
    """Show how long it takes to detect, act and recover, per kind of fault: median / 90 % / 99 %."""
    from relance.ports.clocks import SystemClock

    found = ask.client.figures(SystemClock().now() - timedelta(seconds=last_s), cluster)
    if ask.screen.as_json:
        ask.screen.data(found)
        return
    ask.screen.line(f"{wordings.count(found.incidents, 'incident')}, {found.open} open")
    ask.screen.fact("ended", ", ".join(f"{wordings.name(one.name)} {one.number}" for one in found.ends) or "none")
    ask.screen.table(
        ("kind", "domain", "#incidents", "#to detect", "#to act", "#to first step", "#to new work"),
        (_kind(one) for one in (*found.kinds, found.whole) if one.incidents),
        empty="nothing was measured",
    )
    if found.incidents:
        ask.screen.line("times since the symptom: median / 90 % / 99 %")


def _kind(one: KindFigures) -> tuple[str, ...]:
    spreads = (one.detect, one.act, one.step, one.progress)
    return (
        wordings.name(one.kind),
        wordings.name(one.domain),
        str(one.incidents),
        *(_spread(each) for each in spreads),
    )


def _spread(spread: Spread) -> str:
    if spread.median_s is None:
        return "-"
    return " / ".join(wordings.duration(value) for value in (spread.median_s, spread.p90_s, spread.p99_s))
