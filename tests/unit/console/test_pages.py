from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from selectolax.lexbor import LexborHTMLParser as HTMLParser
from selectolax.lexbor import LexborNode as Node

from relance.domain import events as e
from relance.domain.stages import EndRunning, Stage
from relance.domain.streams import Stream
from relance.ports.tokens import TokenRole
from relance.testing import history_values as values
from tests.served.worlds import ADVICE, ASKING, DIGEST, SCARY, World, secret, world

ORIGIN = "http://localhost:8642"
PAGES = ("/", "/incidents", "/jobs", f"/incidents/{ASKING}", "/incidents/inc-18", f"/jobs/{values.job_key('17')}",
         f"/jobs/{values.job_key('19')}")  # fmt: skip


@asynccontextmanager
async def browser(made: World, role: TokenRole = TokenRole.OPERATOR) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that has logged in, and sends what a browser sends."""
    async with made.client(Origin=ORIGIN) as client:
        answer = await client.post("/login", data={"token": secret(role), "next": "/"})
        assert answer.status_code == 303, answer.text
        yield client


async def page(client: httpx2.AsyncClient, path: str) -> HTMLParser:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return HTMLParser(answer.text)


def words(node: HTMLParser | Node | None) -> str:
    assert node is not None
    found = node.body if isinstance(node, HTMLParser) else node
    assert found is not None
    return re.sub(r"\s+", " ", found.text()).strip()


def form(tree: HTMLParser, action: str) -> dict[str, str]:
    """The fields of a form as a browser would send them."""
    node = tree.css_first(f'form[action="{action}"]')
    assert node is not None, f"no form for {action}"
    assert node.attributes.get("method") == "post"
    return {str(item.attributes["name"]): item.attributes.get("value") or "" for item in node.css("input")}


@pytest.mark.parametrize("path", PAGES)
async def test_without_a_session_every_page_is_the_login_page(path: str) -> None:
    async with (await world()).client() as client:
        answer = await client.get(path)
    assert answer.status_code == 401
    tree = HTMLParser(answer.text)
    assert tree.css_first('input[name="token"]') is not None
    field = tree.css_first('input[name="next"]')
    assert field is not None
    assert field.attributes["value"] == path
    assert "train" not in words(tree)


async def test_a_login_leads_back_to_the_page_that_was_asked_for() -> None:
    async with (await world()).client(Origin=ORIGIN) as client:
        answer = await client.post("/login", data={"token": secret(TokenRole.VIEWER), "next": f"/incidents/{ASKING}"})
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/incidents/{ASKING}"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert secret(TokenRole.VIEWER) not in cookie


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", ""])
async def test_a_login_leads_nowhere_else(target: str) -> None:
    async with (await world()).client(Origin=ORIGIN) as client:
        answer = await client.post("/login", data={"token": secret(TokenRole.VIEWER), "next": target})
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize("token", ["", "relance_nobody", secret(TokenRole.AGENT)])
async def test_a_token_that_may_not_read_does_not_log_in(token: str) -> None:
    async with (await world()).client(Origin=ORIGIN) as client:
        answer = await client.post("/login", data={"token": token})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert HTMLParser(answer.text).css_first('[role="alert"]') is not None


async def test_a_link_from_elsewhere_is_sent_on_so_that_the_strict_cookie_goes_along() -> None:
    path = f"/incidents/{ASKING}"
    async with (await world()).client() as client:
        answer = await client.get(path, headers={"Sec-Fetch-Site": "cross-site"})
    tree = HTMLParser(answer.text)
    refresh = tree.css_first('meta[http-equiv="refresh"]')
    assert refresh is not None
    assert refresh.attributes["content"] == f"0;url={path}"


async def test_logging_out_ends_the_session() -> None:
    async with browser(await world()) as client:
        fields = form(await page(client, "/"), "/logout")
        answer = await client.post("/logout", data=fields)
        assert answer.headers["location"] == "/login"
        assert (await client.get("/")).status_code == 401


@pytest.mark.parametrize("path", PAGES)
async def test_pages_hold_nothing_inline_and_nothing_from_elsewhere(path: str) -> None:
    async with browser(await world()) as client:
        tree = await page(client, path)
        for node in tree.css("*"):
            assert not [name for name in node.attributes if name.startswith("on") or name == "style"], node.html
        assert [node for node in tree.css("script") if not node.attributes.get("src")] == []
        assert tree.css("style") == []
        for node in [*tree.css("[src]"), *tree.css("link[href]")]:
            address = node.attributes.get("src") or node.attributes.get("href") or ""
            assert address.startswith("/static/"), address
            assert (await client.get(address)).status_code == 200


@pytest.mark.parametrize("path", PAGES)
async def test_pages_can_be_read_by_a_screen_reader(path: str) -> None:
    async with browser(await world()) as client:
        tree = await page(client, path)
    assert tree.css_first("html").attributes["lang"] == "en"  # type: ignore[union-attr]
    assert len(tree.css("h1")) == 1
    assert len(tree.css("main")) == 1
    assert words(tree.css_first("title"))
    assert tree.css_first("a.skip") is not None
    ids = [node.attributes["id"] for node in tree.css("[id]")]
    assert len(ids) == len(set(ids))
    for section in tree.css("section"):
        assert section.attributes["aria-labelledby"] in ids
    for table in tree.css("table"):
        assert table.css_first("caption") is not None
        assert table.css("th[scope]")
    for field in tree.css("input:not([type=hidden]), select"):
        labelled = field.parent is not None and (field.parent.tag == "label" or field.parent.css_first("label"))
        assert labelled, field.html
    for image in tree.css("img"):
        assert "alt" in image.attributes


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/", ["/parts/overview"]),
        (f"/incidents/{ASKING}", [f"/parts/incidents/{ASKING}/{part}" for part in ("summary", "decision", "story")]),
        (f"/jobs/{values.job_key('17')}", [f"/parts/jobs/{values.job_key('17')}"]),
    ],
)
async def test_a_part_fetched_alone_is_the_part_of_the_page(path: str, parts: list[str]) -> None:
    async with browser(await world()) as client:
        tree = await page(client, path)
        assert [node.attributes["data-part"] for node in tree.css("[data-part]")] == parts
        for node in tree.css("[data-part]"):
            alone = await client.get(str(node.attributes["data-part"]))
            assert words(HTMLParser(alone.text)) == words(node)


async def test_without_scripts_the_page_loads_itself_again() -> None:
    async with browser(await world()) as client:
        text = (await client.get("/")).text
    assert '<noscript><meta http-equiv="refresh" content="20"></noscript>' in text


async def test_text_of_other_people_is_shown_and_never_obeyed() -> None:
    made = await world()
    hit = values.finding(2, excerpt=SCARY + "\u202egnp.exe")
    await made.append(
        values.job_stream("17"),
        e.FindingReported(finding=hit),
        e.FindingAttached(incident_id=ASKING, finding_id=hit.id),
    )
    async with browser(made) as client:
        for path in ("/", "/jobs", f"/incidents/{ASKING}", f"/jobs/{values.job_key('19')}"):
            text = (await client.get(path)).text
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
            assert "<script>alert" not in text
            assert "\x1b" not in text
            assert "\u202e" not in text


async def test_the_first_page_says_first_what_needs_a_person() -> None:
    async with browser(await world()) as client:
        tree = await page(client, "/")
    asks = tree.css_first(".card.asks")
    assert words(asks).startswith("Restart the job from its last checkpoint without n1?")
    headings = [words(node) for node in tree.css("h2")]
    assert headings[:3] == ["Stages", "Needs you", "Open incidents 1"]
    assert "alpha is at approve" in words(tree.css_first(".cluster"))


async def test_a_quiet_night_says_so() -> None:
    made = World()
    for role in TokenRole:
        await made.tokens.add_token((await (await world()).tokens.tokens())[list(TokenRole).index(role)])
    await made.append(Stream.of_cluster("alpha"), values.stage_set(stage=Stage.ACT))
    async with browser(made) as client:
        text = words(await page(client, "/"))
    assert "Nothing waits for a person." in text
    assert "No incident is open." in text
    assert "no controller has reported yet" in text


async def test_the_page_of_an_incident_leads_to_a_decision() -> None:
    async with browser(await world()) as client:
        tree = await page(client, f"/incidents/{ASKING}")
    text = words(tree)
    assert "It is a node, not your code: n1 (GPU fell off the bus); confidence high" in text
    assert [words(node) for node in tree.css(".decision .commands code")] == [
        "scontrol requeue 17",
        "scontrol update JobId=17 ExcNodeList=n1 StartTime=now",
    ]
    assert "✗ no stage" not in text
    assert "approval nobody has approved this generation yet" in text
    assert [words(node.css_first(".what")) for node in tree.css(".milestones .known")] == [
        "symptom",
        "verdict",
        "advice",
    ]


async def test_an_approval_from_the_page_is_recorded_with_the_persons_name() -> None:
    made = await world()
    async with browser(made) as client:
        tree = await page(client, f"/incidents/{ASKING}")
        fields = form(tree, f"/advice/{ADVICE}/approve")
        assert (fields["generation"], fields["effect_digest"]) == ("1", DIGEST)
        answer = await client.post(f"/advice/{ADVICE}/approve", data=fields)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/incidents/{ASKING}")
        after = await page(client, f"/incidents/{ASKING}")
    story = await made.parts.queries().incident_story(ASKING)
    assert story.approval is not None
    assert (story.approval.yes, story.approval.by) == (True, "operator")
    assert "Approved by operator" in words(after)
    assert after.css_first(f'form[action="/advice/{ADVICE}/approve"]') is None


async def test_a_page_that_has_become_old_cannot_approve_something_newer() -> None:
    made = await world()
    async with browser(made) as client:
        fields = form(await page(client, f"/incidents/{ASKING}"), f"/advice/{ADVICE}/approve")
        await made.append(values.job_stream("17"), values.advice_issued(ASKING, "17", generation=2))
        answer = await client.post(f"/advice/{ADVICE}/approve", data=fields)
    assert answer.status_code == 409
    story = await made.parts.queries().incident_story(ASKING)
    assert story.approval is None


@pytest.mark.parametrize("generation", ["", "x", "\u00b2", "-1", "1.0", "9" * 5000])
async def test_a_form_that_names_no_generation_that_there_is_approves_nothing(generation: str) -> None:
    made = await world()
    async with browser(made) as client:
        fields = form(await page(client, f"/incidents/{ASKING}"), f"/advice/{ADVICE}/approve")
        answer = await client.post(f"/advice/{ADVICE}/approve", data={**fields, "generation": generation})
    assert 400 <= answer.status_code < 500
    assert (await made.parts.queries().incident_story(ASKING)).approval is None


async def test_a_denial_carries_its_reason() -> None:
    made = await world()
    async with browser(made) as client:
        fields = form(await page(client, f"/incidents/{ASKING}"), f"/advice/{ADVICE}/deny")
        await client.post(f"/advice/{ADVICE}/deny", data={**fields, "reason": "maintenance"})
    approval = (await made.parts.queries().incident_story(ASKING)).approval
    assert approval is not None
    assert (approval.yes, approval.reason) == (False, "maintenance")


@pytest.mark.parametrize("mark", ["", "0" * 64])
async def test_a_form_without_this_sessions_mark_changes_nothing(mark: str) -> None:
    made = await world()
    async with browser(made) as client:
        fields = form(await page(client, f"/incidents/{ASKING}"), f"/advice/{ADVICE}/approve")
        answer = await client.post(f"/advice/{ADVICE}/approve", data={**fields, "form_mark": mark})
    assert answer.status_code == 403
    assert (await made.parts.queries().incident_story(ASKING)).approval is None


async def test_a_viewer_sees_everything_and_no_button() -> None:
    made = await world()
    job = values.job_key("17")
    async with browser(made, TokenRole.VIEWER) as client:
        for path in ("/", f"/incidents/{ASKING}", f"/jobs/{job}"):
            forms = [node.attributes["action"] for node in (await page(client, path)).css("form")]
            assert forms == ["/logout"], path
        fields = form(await page(client, "/"), "/logout")
        posts = (f"/advice/{ADVICE}/approve", f"/advice/{ADVICE}/deny", f"/jobs/{job}/disagree", f"/jobs/{job}/switch",
                 "/clusters/alpha/observe", "/clusters/alpha/storm/clear")  # fmt: skip
        for path in posts:
            assert (await client.post(path, data=fields)).status_code == 403, path


async def test_one_button_sets_a_cluster_and_its_partitions_to_observe() -> None:
    made = await world(Stage.ACT)
    await made.parts.commands().set_stage("alpha", "gpu", Stage.ACT, frozenset({EndRunning.HANG}), "root")
    async with browser(made) as client:
        fields = form(await page(client, "/"), "/clusters/alpha/observe")
        assert (await client.post("/clusters/alpha/observe", data=fields)).status_code == 303
        assert (await page(client, "/")).css_first('form[action="/clusters/alpha/observe"]') is None
    (row,) = await made.parts.queries().stages()
    assert row.setting is not None
    assert (row.setting.stage, row.setting.set_by) == (Stage.OBSERVE, "operator")
    assert [item.stage for item in row.partitions] == [Stage.OBSERVE]


async def test_a_storm_is_at_the_top_and_a_person_can_end_it() -> None:
    made = await world()
    storm = e.StormOpened(
        cluster="alpha", storm_id="st-1", reason="file system", incidents=("inc-1",), at=values.after(1)
    )
    await made.append(Stream.of_cluster("alpha"), storm)
    async with browser(made) as client:
        tree = await page(client, "/")
        assert "Storm on the whole cluster since 12:00:01." in words(tree.css_first('.cluster [role="alert"]'))
        shared = words(await page(client, "/storms/st-1"))
        assert "file system" in shared
        assert "train ada, gpu" in shared, "the jobs that share it are listed"
        fields = form(tree, "/clusters/alpha/storm/clear")
        await client.post("/clusters/alpha/storm/clear", data={**fields, "reason": "it is back"})
        assert (await page(client, "/")).css_first(".cluster [role=alert]") is None


async def test_a_job_is_switched_and_its_verdict_called_wrong_from_its_page() -> None:
    made = await world()
    job = values.job_key("17")
    async with browser(made) as client:
        fields = form(await page(client, f"/jobs/{job}"), f"/jobs/{job}/switch")
        sent = {**fields, "stage": "off", "hours": "4", "reason": "debugging"}
        assert (await client.post(f"/jobs/{job}/switch", data=sent)).status_code == 303
        assert (await made.parts.queries().job_stage("17")).effective.stage is Stage.OFF
        fields = form(await page(client, f"/jobs/{job}"), f"/jobs/{job}/disagree")
        assert (await client.post(f"/jobs/{job}/disagree", data={**fields, "text": "my data"})).status_code == 303
        text = words(await page(client, f"/jobs/{job}"))
    assert "said to be wrong: my data" in text


@pytest.mark.parametrize("path", ["/incidents/inc-99", "/jobs/nobody", "/nowhere", "/static/0/console.css"])
async def test_what_is_not_there_is_said_on_a_page(path: str) -> None:
    async with browser(await world()) as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    assert HTMLParser(answer.text).css_first('[role="alert"]') is not None


async def test_assets_are_named_by_their_content_and_kept() -> None:
    async with (await world()).client() as client:
        tree = HTMLParser((await client.get("/login")).text)
        sheet = tree.css_first('link[rel="stylesheet"]')
        assert sheet is not None
        answer = await client.get(str(sheet.attributes["href"]))
    assert answer.status_code == 200
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["Content-Type"].startswith("text/css")
