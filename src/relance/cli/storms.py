"""`relance storm`: incidents that many jobs share, with their jobs; and ending one by hand."""

from __future__ import annotations

import click

from relance.cli.asking import Asking, asks
from relance.cli.failures import ExitCode, FailureError
from relance.cli.screens import Screen, clock, shown
from relance.recovery import wordings
from relance.recovery.rows import StormRow
from relance.recovery.tones import tone


@click.group("storm")
def storm() -> None:
    """Show incidents that many jobs share, or end one by hand. While one is open, restarts in its place wait."""


@storm.command("list")
@click.option("--cluster", help="Only storms of this cluster.")
@click.option("--open", "open_only", is_flag=True, help="Only those that are open.")
@asks
def storm_list(ask: Asking, /, cluster: str | None, open_only: bool) -> None:  # noqa: FBT001 - an option
    """List storms, newest first: where each is, why, and how many jobs share it."""
    rows = ask.client.storms(cluster, open_only=open_only)
    if ask.screen.as_json:
        ask.screen.data(rows)
        return
    ask.screen.table(
        ("storm", "opened (UTC)", "where", "#jobs", "why", "what happens next"),
        (
            (
                row.storm_id,
                clock(row.opened_at),
                f"{row.cluster}, {row.place}",
                str(len(row.incidents)),
                row.reason,
                shown(row.next, "bad" if row.cleared_at is None else ""),
            )
            for row in rows
        ),
        empty="no storm is open" if open_only else "no storm so far",
        sentences=("why", "what happens next"),
    )


@storm.command("show")
@click.argument("ident", metavar="[ID]", required=False)
@asks
def storm_show(ask: Asking, /, ident: str | None) -> None:
    """Show one storm with every job that shares it; ID, or its beginning, may be left out where one is open."""
    row = _meant(ask.client.storms(open_only=ident is None), ident)
    if ask.screen.as_json:
        ask.screen.data(row)
    else:
        show_storm(ask.screen, row)


@storm.command("clear")
@click.option("--cluster", help="The cluster; needed when there are several.")
@click.option("--storm", "ident", default="", help="Its id, or the beginning of it; needed when several are open.")
@click.option("--reason", default="", help="Why; people read it.")
@asks
def storm_clear(ask: Asking, /, cluster: str | None, ident: str, reason: str) -> None:
    """Let restarts come back: one canary first, then at the storm's slow rate."""
    names = [row.cluster for row in ask.client.stages() if row.storm_is_open]
    if cluster is None and ident:
        cluster = _meant(ask.client.storms(open_only=True), ident).cluster
    if cluster is None and len(names) != 1:
        found = f"on {', '.join(names)}: say which with --cluster" if names else "anywhere"
        raise FailureError(f"there is {'a storm' if names else 'no storm'} {found}", code=ExitCode.NOT_FOUND)
    cleared = ask.client.clear_storm(cluster or names[0], reason, ident)
    if ask.screen.as_json:
        ask.screen.data(cleared)
        return
    ask.screen.line(f"the storm on {cleared.cluster} is cleared", "good")


def show_storm(screen: Screen, row: StormRow) -> None:
    """One storm, then the jobs that share it."""
    screen.line(f"storm {row.place} on {row.cluster}", "bad" if row.cleared_at is None else "")
    screen.fact("storm", row.storm_id)
    screen.fact("opened", clock(row.opened_at))
    if row.cleared_at is not None:
        screen.fact("cleared", f"{clock(row.cleared_at)} by {row.cleared_by}")
    screen.fact("why", row.reason)
    screen.fact("what next", row.next)
    screen.table(
        ("incident", "job", "user", "what it is", "state", "what happens next"),
        (
            (
                item.id,
                f"{item.job.raw_id} {item.name}",
                item.user,
                wordings.name(item.cause) or "not judged yet",
                shown(wordings.name((item.end or item.state).value), tone(item.end or item.state)),
                item.next,
            )
            for item in row.incidents
        ),
        empty="no job shares it",
        sentences=("what happens next",),
    )


def _meant(rows: tuple[StormRow, ...], ident: str | None) -> StormRow:
    found = [row for row in rows if row.storm_id.startswith(ident or "")]
    if len(found) == 1:
        return found[0]
    if not found:
        what = f"no storm is known by {ident!r}" if ident else "no storm is open"
        raise FailureError(f"{what}; see `relance storm list`", code=ExitCode.NOT_FOUND)
    names = ", ".join(row.storm_id for row in found)
    raise FailureError(f"{len(found)} storms may be meant: {names}", code=ExitCode.NOT_FOUND)
