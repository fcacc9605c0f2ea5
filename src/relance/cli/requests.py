"""The verbs with which people have something done to jobs and nodes. The controller does it, or says why not."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import click

from relance.cli.asking import Asking, Duration, asks
from relance.cli.failures import ExitCode, FailureError
from relance.cli.screens import clock
from relance.domain.advice import ActionEnd
from relance.domain.requests import RequestRecord, RequestVerb
from relance.ports.clocks import SystemClock
from relance.recovery import wordings
from relance.recovery.rows import NodeRow

_WAIT_S = 90.0
_POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manner:
    """Why it is asked for, whether the person is asked first, and whether what comes of it is waited for."""

    reason: str
    ask_first: bool
    wait: bool


def _asking(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that all of these share, as one value behind the client."""

    @click.option("--reason", required=True, help="Why; the owner and the other operators read it.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @click.option("--no-wait", is_flag=True, help="Do not wait for what comes of it.")
    @functools.wraps(command)
    def asked(ask: Asking, /, *, reason: str, yes: bool, no_wait: bool, **options: object) -> None:
        command(ask, _Manner(reason=reason, ask_first=not yes, wait=not no_wait), **options)

    return asked


_for = click.option(
    "--for", "for_s", type=Duration(), default="24h", show_default=True, help="For how long; from 5m to 31d."
)
_cluster = click.option("--cluster", help="The cluster; needed when several have a node of that name.")


@click.group("job")
def job() -> None:
    """Have something done to a job by hand. It is recorded with your name, and its owner is told."""


@job.command("cancel")
@click.argument("text", metavar="JOB")
@asks
@_asking
def cancel(ask: Asking, manner: _Manner, /, text: str) -> None:
    """Cancel JOB for good. Nothing undoes it: the job would have to be submitted again."""
    _of_job(ask, text, RequestVerb.CANCEL, manner)


@job.command("hold")
@click.argument("text", metavar="JOB")
@asks
@_asking
def hold(ask: Asking, manner: _Manner, /, text: str) -> None:
    """Keep JOB, which waits, from starting. `relance job release` undoes it."""
    _of_job(ask, text, RequestVerb.HOLD, manner)


@job.command("release")
@click.argument("text", metavar="JOB")
@asks
@_asking
def release(ask: Asking, manner: _Manner, /, text: str) -> None:
    """Let JOB start, whoever held it. `relance job hold` undoes it while the job waits."""
    _of_job(ask, text, RequestVerb.RELEASE, manner)


@job.command("disarm")
@click.argument("text", metavar="JOB")
@asks
@_asking
def disarm(ask: Asking, manner: _Manner, /, text: str) -> None:
    """Take back that JOB, which runs, may be requeued, where Relance let it be: Slurm then refuses, as it would have.

    Relance does not let it be requeued again.
    """
    _of_job(ask, text, RequestVerb.DISARM, manner)


@click.group("node")
def node() -> None:
    """Keep a node out by hand for a while, return it, or list what is kept out and by whom."""


@node.command("quarantine")
@click.argument("names", metavar="NODE...", nargs=-1, required=True)
@_for
@_cluster
@asks
@_asking
def quarantine(ask: Asking, manner: _Manner, /, names: tuple[str, ...], for_s: float, cluster: str | None) -> None:
    """Keep new jobs off each NODE by a maintenance reservation; what runs there goes on.

    The Operator right is enough. It ends by itself, and sooner by `relance node return`.
    """
    _of_nodes(ask, _rows(ask, names, cluster), RequestVerb.QUARANTINE, for_s, manner)


@node.command("drain")
@click.argument("names", metavar="NODE...", nargs=-1, required=True)
@_for
@_cluster
@asks
@_asking
def drain(ask: Asking, manner: _Manner, /, names: tuple[str, ...], for_s: float, cluster: str | None) -> None:
    """Drain each NODE; what runs there goes on. Needs `actions.drain_nodes` and the Administrator right.

    A node that is drained already, down, or changing its power is left as it is. When the time is over Relance returns
    it, unless somebody else has taken the drain over.
    """
    _of_nodes(ask, _rows(ask, names, cluster), RequestVerb.DRAIN, for_s, manner)


@node.command("return")
@click.argument("names", metavar="NODE...", nargs=-1, required=True)
@_cluster
@asks
@_asking
def give_back(ask: Asking, manner: _Manner, /, names: tuple[str, ...], cluster: str | None) -> None:
    """Undo a quarantine or drain of ours. One that somebody else made, or took over, is left as it is."""
    _of_nodes(ask, _rows(ask, names, cluster), RequestVerb.RETURN, None, manner)


@node.command("list")
@click.option("--cluster", help="Only nodes of this cluster.")
@asks
def listed(ask: Asking, /, cluster: str | None) -> None:
    """List the nodes that Relance keeps out, or was asked to: who wanted it, why, until when."""
    rows = tuple(row for row in ask.client.nodes(cluster) if row.requests)
    if ask.screen.as_json:
        ask.screen.data(rows)
        return
    ask.screen.table(
        ("node", "cluster", "state", "what", "who", "since (UTC)", "until (UTC)", "jobs there", "why"),
        (
            (
                row.node,
                row.cluster,
                row.state.value,
                _how(item),
                item.request.by,
                clock(item.ended_at or item.request.at),
                clock(item.request.until) if item.request.until else "-",
                ", ".join(row.jobs) or "-",
                item.request.reason,
            )
            for row in rows
            for item in row.requests
        ),
        empty="no node is kept out by hand; `relance nodes` has what others did",
        sentences=("why",),
    )


def _how(item: RequestRecord) -> str:
    if item.is_open:
        return f"{item.request.verb.value} asked for"
    return item.request.verb.value


def _of_job(ask: Asking, text: str, verb: RequestVerb, manner: _Manner) -> None:
    meant = text
    shown: int | None = None
    if manner.ask_first:
        row = ask.client.job_story(text).job
        meant, shown = str(row.job), row.restart_count
        ask.screen.fact("job", f"{row.name} ({row.job.raw_id}) of {row.user}, in {row.partition}")
        ask.screen.fact("now", f"{row.state.value}, attempt {row.restart_count + 1}, on {wordings.nodes(row.nodes)}")
        if verb is RequestVerb.CANCEL:
            ask.screen.fact("undo", "none: it would have to be submitted again")
        _confirm(ask, f"{verb.value.capitalize()} it?")
    request = ask.client.ask_of_job(meant, verb.value, manner.reason, shown)
    key = str(request.job)
    _show(ask, (_settled(lambda: ask.client.requests_of_job(key), request.id, wait=manner.wait),))


def _of_nodes(ask: Asking, rows: tuple[NodeRow, ...], verb: RequestVerb, for_s: float | None, manner: _Manner) -> None:
    if manner.ask_first:
        for row in rows:
            jobs = ", ".join(row.jobs) or "none"
            ask.screen.fact("node", f"{row.node} of {row.cluster}, {row.state.value}, jobs: {jobs}")
        long = f" for {wordings.duration(for_s)}" if for_s else ""
        _confirm(ask, f"{verb.value.capitalize()} {wordings.nodes([row.node for row in rows])}{long}?")
    keys = [ask.client.ask_of_node(row.cluster, row.node, verb.value, manner.reason, for_s).id for row in rows]
    records = []
    for row, key in zip(rows, keys, strict=True):
        read = functools.partial(ask.client.requests_of_node, row.cluster, row.node)
        records.append(_settled(read, key, wait=manner.wait))
    _show(ask, tuple(records))


def _rows(ask: Asking, names: tuple[str, ...], cluster: str | None) -> tuple[NodeRow, ...]:
    """The nodes that are meant; one of a name on several clusters is not guessed."""
    known = ask.client.nodes(cluster)
    found = []
    for name in dict.fromkeys(names):
        rows = [row for row in known if row.node == name]
        if len(rows) != 1:
            where = f"on {', '.join(row.cluster for row in rows)}: say which with --cluster" if rows else "known"
            lead = "node" if rows else "no node"
            raise FailureError(f"{lead} {name} is {where}", code=ExitCode.NOT_FOUND)
        found.append(rows[0])
    return tuple(found)


def _settled(read: Callable[[], tuple[RequestRecord, ...]], key: str, *, wait: bool) -> RequestRecord:
    """The request once it is settled, or as it is when there is no more waiting."""
    clock_now = SystemClock()
    until_s = clock_now.monotonic() + (_WAIT_S if wait else 0.0)
    while True:
        record = next(item for item in read() if item.request.id == key)
        if not record.is_open or clock_now.monotonic() >= until_s:
            return record
        time.sleep(_POLL_S)


def _show(ask: Asking, records: tuple[RequestRecord, ...]) -> None:
    if ask.screen.as_json:
        ask.screen.data(records)
    else:
        for record in records:
            ask.screen.line(_outcome(record), _TONES.get(record.end, "bad"))
    bad = [record for record in records if record.end not in (None, ActionEnd.SUCCEEDED)]
    if bad:
        raise FailureError("not done", code=ExitCode.REFUSED)


_TONES = {ActionEnd.SUCCEEDED: "good", None: "busy"}


def _outcome(record: RequestRecord) -> str:
    request = record.request
    what = f"{request.verb.value} {request.subject}"
    until = f" until {request.until:%Y-%m-%d %H:%M UTC}" if request.until else ""
    reason = f": {record.reason}" if record.reason else ""
    if record.end is None:
        return f"{what}: asked for as {request.by}; the controller has not told yet what came of it"
    if record.end is ActionEnd.SUCCEEDED:
        undo = {
            RequestVerb.HOLD: f"; undo: relance job release {request.job.raw_id if request.job else ''} --reason …",
            RequestVerb.QUARANTINE: f"; undo: relance node return {request.node} --reason …",
            RequestVerb.DRAIN: f"; undo: relance node return {request.node} --reason …",
        }.get(request.verb, "")
        return f"{what}{until}: done as {request.by}{reason}{undo}"
    return f"{what}: {wordings.request_end(record.end)}{reason}"


def _confirm(ask: Asking, question: str) -> None:
    if ask.screen.as_json or not sys.stdin.isatty():
        raise click.UsageError("this asks before it does something; say --yes where nobody can answer")
    if not click.confirm(question):
        raise FailureError("nothing was asked for")
