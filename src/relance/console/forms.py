"""What people order from a page. Each form becomes a recorded command with the person's name, then the page again."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from relance.console.doors import parts_of, person_with_form
from relance.domain.stages import Stage
from relance.recovery.commands import Choice, CommandRefusedError
from relance.serving.identities import Right

_WORDS = 2000


async def approve(request: Request) -> Response:
    """Yes to the generation and the effect that the page showed."""
    who, fields = await person_with_form(request, Right.DECIDE)
    await parts_of(request).commands().approve(_choice(request, fields), who.name)
    return back(f"/incidents/{_part(fields.get('incident', ''))}")


async def deny(request: Request) -> Response:
    """No to the generation that the page showed."""
    who, fields = await person_with_form(request, Right.DECIDE)
    await parts_of(request).commands().deny(_choice(request, fields), who.name, words(fields, "reason"))
    return back(f"/incidents/{_part(fields.get('incident', ''))}")


async def disagree(request: Request) -> Response:
    """The verdict on this job is wrong: no further action on it."""
    who, fields = await person_with_form(request, Right.DECIDE)
    text = words(fields, "text")
    if not text:
        raise CommandRefusedError("say in a few words what is wrong about the verdict")
    job = request.path_params["job"]
    await parts_of(request).commands().disagree(job, who.name, text)
    return back(f"/jobs/{_part(job)}")


async def switch(request: Request) -> Response:
    """Switch a job off, for some hours or for good, or lift its switch."""
    who, fields = await person_with_form(request, Right.DECIDE)
    parts, job = parts_of(request), request.path_params["job"]
    wanted, hours = fields.get("stage", ""), fields.get("hours", "")
    stages = {"off": Stage.OFF, "observe": Stage.OBSERVE, "lift": None}
    if wanted not in stages or (hours and not hours.isdecimal()):
        raise CommandRefusedError("a job is switched to off or observe, or its switch is lifted")
    until = parts.clock.now() + timedelta(hours=int(hours[:4])) if hours and stages[wanted] is not None else None
    await parts.commands().switch_job(job, stages[wanted], who.name, until, words(fields, "reason"))
    return back(f"/jobs/{_part(job)}")


async def observe(request: Request) -> Response:
    """The kill switch: a cluster and each of its partitions to observe."""
    who, _ = await person_with_form(request, Right.DECIDE)
    cluster, parts = request.path_params["cluster"], parts_of(request)
    for row in await parts.queries().stages(cluster):
        for partition in (None, *(item.partition for item in row.partitions if item.stage.rank > Stage.OBSERVE.rank)):
            await parts.commands().set_stage(cluster, partition, Stage.OBSERVE, None, who.name)
    return back("/")


async def clear_storm(request: Request) -> Response:
    """Let restarts come back after a storm."""
    who, fields = await person_with_form(request, Right.DECIDE)
    cluster = request.path_params["cluster"]
    await (
        parts_of(request)
        .commands()
        .open_storm_bucket(cluster, who.name, words(fields, "reason"), fields.get("storm", "")[:100])
    )
    return back("/")


def _choice(request: Request, fields: dict[str, str]) -> Choice:
    generation = fields.get("generation", "")
    if not generation.isdecimal():
        raise CommandRefusedError("the form does not say which advice it is about")
    return Choice(
        advice_id=request.path_params["advice"],
        generation=int(generation[:9]),
        effect_digest=fields.get("effect_digest", ""),
    )


def words(fields: dict[str, str], name: str) -> str:
    """What a person typed into a field, cut to what is kept."""
    return fields.get(name, "").strip()[:_WORDS]


def _part(text: str) -> str:
    return quote(text, safe="/")


def back(path: str) -> Response:
    """To the page from which the form came."""
    return RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER)
