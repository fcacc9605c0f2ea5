"""What outside providers said is shown wherever the verdict is, as other people's text."""

from __future__ import annotations

import pytest

from relance.cli.checks import show_check
from relance.cli.screens import Screen
from relance.cli.stories import show_incident, show_job
from relance.domain import events as e
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.verdicts import Opinion
from relance.ports.providers import ProviderError, ProviderQuestion
from relance.ports.tokens import TokenRole
from relance.recovery.desks import Desk
from relance.recovery.owning import own_part
from relance.testing import history_values as values
from relance.testing.provider_contract import QUESTION
from tests.served.worlds import ASKING, SCARY, World, secret, world

OPINION = Opinion(
    provider="fabric-team", at=values.after(5), domain=FaultDomain.INTERCONNECT, remedy=Remedy.STOP, suspects=("n1",),
    confidence=0.9, text=SCARY, late=True,
)  # fmt: skip


class Broken:
    """A provider that is down."""

    name = "fabric-team"

    async def ask(self, question: ProviderQuestion) -> Opinion | None:
        raise ProviderError("it answered with HTTP 500")

    async def close(self) -> None: ...


async def asked() -> World:
    made = await world()
    await made.append(values.job_stream("17"), e.OpinionGiven(incident_id=ASKING, opinion=OPINION))
    desk = Desk(Broken(), made.clock, 5.0)
    for _ in range(4):
        await desk.ask(QUESTION)
    made.live.desks = (desk,)
    return made


async def test_the_api_gives_it_with_the_verdict_and_in_the_history() -> None:
    made = await asked()
    async with made.client(TokenRole.VIEWER) as client:
        story = (await client.get(f"/api/v1/incidents/{ASKING}")).json()
        rows = (await client.get("/api/v1/jobs/17/history")).json()
    (said,) = story["verdict"]["opinions"]
    assert (said["provider"], said["domain"], said["late"]) == ("fabric-team", "interconnect", True)
    assert any(row["event"] == "OpinionGiven" for row in rows)
    assert any(entry["title"] == "fabric-team was asked, and answered late" for entry in story["entries"])


@pytest.mark.parametrize("page", [f"/incidents/{ASKING}", "/jobs/17"])
async def test_the_console_shows_it_escaped(page: str) -> None:
    made = await asked()
    async with made.client() as client:
        await client.post("/login", data={"token": secret(TokenRole.VIEWER), "next": "/"})
        shown = await client.get(page)
    assert "Asked outside" in shown.text
    assert "fabric-team: interconnect, stop, points at n1" in shown.text
    assert "&lt;script&gt;alert" in shown.text
    assert "<script>alert" not in shown.text


async def test_the_terminal_shows_it_without_what_steers_it(capsys: pytest.CaptureFixture[str]) -> None:
    made = await asked()
    screen, ask = Screen(as_json=False), made.parts.queries()
    show_job(screen, await ask.job_story("17"))
    show_incident(screen, await ask.incident_story(ASKING))
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("asked outside: fabric-team: interconnect, stop, points at n1, confidence high") == 2
    assert "(too late to count)" in told
    assert "\x1b" not in told


async def test_a_check_of_a_job_says_that_a_provider_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    made = await asked()
    show_check(Screen(as_json=False), await made.parts.queries().job_check("17"))
    told = " ".join(capsys.readouterr().out.split())
    assert "fabric-team: left alone for 60 s more (0 opinions, 0 without an answer, 3 errors, 1 not asked)" in told
    assert "last: it answered with HTTP 500" in told


async def test_the_metrics_count_it() -> None:
    made = await asked()
    async with made.client(TokenRole.VIEWER) as client:
        await client.get("/metrics")
        text = (await client.get("/metrics")).text
    assert 'relance_provider_questions_total{provider="fabric-team",result="error"} 3.0' in text
    assert 'relance_provider_questions_total{provider="fabric-team",result="left_out"} 1.0' in text
    assert 'relance_provider_state{provider="fabric-team"} 2.0' in text


async def test_an_owner_is_not_told_a_provider_s_own_words() -> None:
    made = await asked()
    story = own_part(await made.parts.queries().job_story("17"))
    assert [(item.domain, item.text) for item in story.opinions] == [(FaultDomain.INTERCONNECT, "")]
