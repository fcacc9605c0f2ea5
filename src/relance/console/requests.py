"""The page of a node, and the forms by which people ask for something to be done to a job or a node."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from relance.console.doors import parts_of, person, person_with_form
from relance.console.forms import back, words
from relance.console.rendering import render
from relance.console.views import frame_of
from relance.domain.requests import RequestVerb
from relance.recovery.commands import CommandRefusedError
from relance.recovery.requesting import OF_JOBS, OF_NODES, Wanted
from relance.recovery.rows import NodeRow
from relance.recovery.subjects import NotKnownError
from relance.serving.identities import Right

_HOUR_S = 3600.0
_KEPT = 20


async def node(request: Request) -> Response:
    """The page of one node: who keeps it out and why, and what was asked about it."""
    who, row = await person(request), await _row(request)
    asked = await parts_of(request).requesting().of_nodes_record(row.cluster, row.node)
    return render("node.html", frame=await frame_of(request, who), row=row, asked=tuple(reversed(asked))[:_KEPT])


async def ask_of_job(request: Request) -> Response:
    """Ask for a job to be cancelled, held or released."""
    who, fields = await person_with_form(request, Right.DECIDE)
    verb = _verb(fields, OF_JOBS)
    if verb is RequestVerb.CANCEL and not fields.get("sure"):
        raise CommandRefusedError("a cancelled job is gone for good: tick that you are sure")
    job, shown = request.path_params["job"], fields.get("restart_count", "")[:9]
    count = int(shown) if shown.isdecimal() else None
    wanted = Wanted(verb=verb, reason=_reason(fields), by=who.name, restart_count=count)
    await parts_of(request).requesting().of_job(job, wanted)
    return back(f"/jobs/{quote(job, safe='/')}")


async def ask_of_node(request: Request) -> Response:
    """Ask for a node to be quarantined or drained for some hours, or returned."""
    who, fields = await person_with_form(request, Right.DECIDE)
    verb, hours, row = _verb(fields, OF_NODES), fields.get("hours", ""), await _row(request)
    for_s = float(hours[:4]) * _HOUR_S if hours.isdecimal() and verb.keeps_out else None
    wanted = Wanted(verb=verb, reason=_reason(fields), by=who.name, for_s=for_s)
    await parts_of(request).requesting().of_node(row.cluster, row.node, wanted)
    return back(f"/nodes/{quote(row.cluster, safe='')}/{quote(row.node, safe='')}")


async def _row(request: Request) -> NodeRow:
    cluster, name = request.path_params["cluster"], request.path_params["node"]
    rows = await parts_of(request).queries().nodes(cluster)
    found = next((row for row in rows if row.node == name), None)
    if found is None:
        raise NotKnownError(f"no node {name!r} is known on cluster {cluster!r}")
    return found


def _verb(fields: dict[str, str], known: tuple[RequestVerb, ...]) -> RequestVerb:
    found = next((verb for verb in known if verb.value == fields.get("verb", "")), None)
    if found is None:
        raise CommandRefusedError(f"the form does not say what is asked for: {', '.join(verb.value for verb in known)}")
    return found


def _reason(fields: dict[str, str]) -> str:
    reason = words(fields, "reason")
    if not reason:
        raise CommandRefusedError("say in a few words why: the owner and the other operators read it")
    return reason
