"""What people ask for by forms and over the API: with their name, their right, and a form of their own session."""

from __future__ import annotations

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionEnd
from relance.domain.requests import RequestKind, RequestVerb
from relance.domain.stages import Stage
from relance.ports.tokens import TokenRole
from relance.recovery.letters import OwnerLetters
from relance.recovery.sites import ClusterRules, Site
from relance.testing import history_values as values
from tests.served.worlds import World, world
from tests.unit.console.test_pages import browser, form, page, words
from tests.unit.recovery.test_letters import EVERY_KIND

JOB = f"/jobs/{values.job_key('19')}"
NODE = "/nodes/alpha/n0"


async def made_at(stage: Stage = Stage.APPROVE) -> World:
    made = await world(stage)
    site = Site(clusters=(ClusterRules(cluster="alpha", opted_in=None, requests=frozenset(RequestKind)),))
    return World(clock=made.clock, history=made.history, tokens=made.tokens, live=made.live, site=site)


async def test_a_form_on_a_node_s_page_asks_with_the_person_s_name_and_the_page_shows_it() -> None:
    made = await made_at()
    async with browser(made) as client:
        tree = await page(client, NODE)
        assert "n0" in words(tree)
        fields = form(tree, f"{NODE}/requests") | {"verb": "quarantine", "hours": "4", "reason": "Xid <b>79</b>"}
        answer = await client.post(f"{NODE}/requests", data=fields)
        assert (answer.status_code, answer.headers["location"]) == (303, NODE)
        shown = words(await page(client, NODE))
    assert "waits for the controller" in shown
    assert "Xid <b>79</b>" in shown
    ((request,),) = [[item.request for item in await made.parts.requesting().of_nodes_record("alpha", "n0")]]
    assert (request.by, request.verb) == ("operator", RequestVerb.QUARANTINE)
    assert request.until is not None
    assert round((request.until - request.at).total_seconds(), -1) == 4 * 3600


async def test_a_cancel_wants_a_reason_and_to_be_sure() -> None:
    made = await made_at()
    async with browser(made) as client:
        fields = form(await page(client, JOB), f"{JOB}/requests") | {"verb": "cancel", "reason": ""}
        fields.pop("sure")
        assert "tick that you are sure" in (await client.post(f"{JOB}/requests", data=fields)).text
        answer = await client.post(f"{JOB}/requests", data=fields | {"sure": "yes"})
        assert "say in a few words why" in answer.text
        answer = await client.post(f"{JOB}/requests", data=fields | {"sure": "y", "reason": "x", "restart_count": "4"})
        assert "it was asked about attempt 5, and this is attempt 1" in answer.text
        answer = await client.post(f"{JOB}/requests", data=fields | {"sure": "yes", "reason": "wrong data"})
        assert answer.status_code == 303
        assert "cancel asked for by operator" in words(await page(client, JOB))


@pytest.mark.parametrize("hours", ["", "\u00b2", "-4", "4 h", "9999"])
async def test_hours_that_are_none_or_too_many_are_refused_in_words(hours: str) -> None:
    made = await made_at()
    async with browser(made) as client:
        fields = form(await page(client, NODE), f"{NODE}/requests") | {"verb": "quarantine", "reason": "Xid 79"}
        answer = await client.post(f"{NODE}/requests", data=fields | {"hours": hours})
    assert (answer.status_code < 500, "from 5 minutes to 31 days" in answer.text) == (True, True)
    assert await made.parts.requesting().of_nodes_record("alpha", "n0") == ()


async def test_a_viewer_has_no_form_and_a_foreign_form_is_refused() -> None:
    made = await made_at()
    async with browser(made, TokenRole.VIEWER) as client:
        assert (await page(client, NODE)).css_first("form[action$='/requests']") is None
        data = {"verb": "quarantine", "hours": "4", "reason": "Xid 79", "form_mark": "x"}
        assert (await client.post(f"{NODE}/requests", data=data)).status_code == 403
    async with browser(made) as client:
        assert (await client.post(f"{NODE}/requests", data=data)).status_code == 403
    assert await made.parts.requesting().of_nodes_record("alpha", "n0") == ()


async def test_a_node_that_nobody_knows_has_no_page() -> None:
    async with browser(await made_at()) as client:
        assert (await client.get("/nodes/alpha/nowhere")).status_code == 404


@pytest.mark.parametrize(
    ("role", "stage", "status"),
    [
        (TokenRole.OPERATOR, Stage.APPROVE, 200),
        (TokenRole.VIEWER, Stage.APPROVE, 403),
        (TokenRole.AGENT, Stage.APPROVE, 403),
        (TokenRole.OPERATOR, Stage.OBSERVE, 409),
        (None, Stage.APPROVE, 401),
    ],
)
async def test_the_api_asks_for_whom_may_decide_from_approve_up(
    role: TokenRole | None, stage: Stage, status: int
) -> None:
    made = await made_at(stage)
    async with made.client(role) as client:
        asked = {"verb": "cancel", "reason": "wrong data"}
        assert (await client.post("/api/v1/jobs/19/requests", json=asked)).status_code == status
        keep_out = {"verb": "quarantine", "reason": "Xid 79", "for_s": 3600}
        answer = await client.post("/api/v1/clusters/alpha/nodes/n0/requests", json=keep_out)
        assert answer.status_code == status, answer.text
        assert ("below approve" in answer.text) is (stage is Stage.OBSERVE)


async def test_the_api_tells_what_was_asked_and_takes_nothing_else() -> None:
    made = await made_at()
    async with made.client(TokenRole.OPERATOR) as client:
        for body in ({"verb": "down", "reason": "x"}, {"verb": "cancel", "reason": " \n"}, {"verb": "cancel"}):
            assert (await client.post("/api/v1/jobs/19/requests", json=body)).status_code == 422
        other = {"verb": "cancel", "reason": "wrong data", "restart_count": 1}
        answer = await client.post("/api/v1/jobs/19/requests", json=other)
        assert (answer.status_code, "this is attempt 1: look again" in answer.text) == (409, True)
        await client.post("/api/v1/jobs/19/requests", json=other | {"restart_count": 0})
        (row,) = (await client.get("/api/v1/jobs/19/requests")).json()
        assert (row["request"]["by"], row["request"]["verb"], row["end"]) == ("operator", "cancel", None)
        assert (await client.get("/api/v1/clusters/alpha/nodes/n0/requests")).json() == []


async def test_the_owner_is_told_by_whom_and_why() -> None:
    made = await made_at()
    teller = OwnerLetters(made.parts.queries(), made.site, EVERY_KIND)
    async with made.client(TokenRole.OPERATOR) as client:
        asked = (await client.post("/api/v1/jobs/19/requests", json={"verb": "cancel", "reason": "wrong data"})).json()
    ended = e.RequestEnded(
        request_id=asked["id"], verb=RequestVerb.CANCEL, by="operator", end=ActionEnd.SUCCEEDED, reason="",
        at=made.clock.now(),
    )  # fmt: skip
    await made.append(values.job_stream("19"), ended)
    recorded = (await made.history.read(values.job_stream("19")))[-1]
    (letter,) = await teller(recorded, (await made.history.load(values.job_stream("19"))).record)
    assert letter.owner == "ada"
    assert "was cancelled: operator asked for it: wrong data" in letter.text
    story = await made.parts.queries().job_story("19")
    assert any("cancel asked for by operator" in note and "(done)" in note for note in story.notes)
