from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from relance.api import WebSettings, create_app
from relance.ports.tokens import TokenRole
from relance.serving.identities import SESSION_COOKIE
from tests.served.worlds import ADVICE, DIGEST, secret, world

OPEN_TO_ALL = {"/healthz", "/readyz"}
EVIL = "http://evil.example"


async def test_every_address_but_health_asks_who_is_there() -> None:
    made = await world()
    app = create_app(made.parts)
    addresses = {(method, path) for path, methods in app.openapi()["paths"].items() for method in methods}
    assert len(addresses) > 25
    async with made.client() as client:
        for method, path in addresses:
            answer = await client.request(method, path)
            expected = 200 if path in OPEN_TO_ALL else 401
            assert answer.status_code == expected, (method, path, answer.text)


async def test_an_unknown_token_is_refused_in_the_one_error_shape() -> None:
    async with (await world()).client(Authorization="Bearer relance_nobody") as client:
        answer = await client.get("/api/v1/jobs")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json() == {
        "error": {
            "code": "not_logged_in",
            "message": "this needs a token",
            "remedy": "send `Authorization: Bearer TOKEN`; the first start wrote an admin token to the state folder",
        }
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "allowed"),
    [
        ("GET", "/api/v1/jobs", None, {TokenRole.ADMIN, TokenRole.OPERATOR, TokenRole.VIEWER}),
        ("GET", "/metrics", None, {TokenRole.ADMIN, TokenRole.OPERATOR, TokenRole.VIEWER}),
        ("GET", "/api/v1/openapi.json", None, {TokenRole.ADMIN, TokenRole.OPERATOR, TokenRole.VIEWER}),
        ("POST", "/api/v1/jobs/17/disagree", {"text": "no"}, {TokenRole.ADMIN, TokenRole.OPERATOR}),
        ("POST", "/api/v1/jobs/17/switch", {"stage": "off"}, {TokenRole.ADMIN, TokenRole.OPERATOR}),
        (
            "POST",
            f"/api/v1/advice/{ADVICE}/approve",
            {"generation": 1, "effect_digest": DIGEST},
            {TokenRole.ADMIN, TokenRole.OPERATOR},
        ),
        ("POST", f"/api/v1/advice/{ADVICE}/deny", {"generation": 1}, {TokenRole.ADMIN, TokenRole.OPERATOR}),
        ("PUT", "/api/v1/stages", {"stage": "observe"}, {TokenRole.ADMIN, TokenRole.OPERATOR}),
        ("PUT", "/api/v1/stages", {"stage": "act"}, {TokenRole.ADMIN}),
        ("PUT", "/api/v1/stages", {"stage": "approve", "end_running": ["hang"]}, {TokenRole.ADMIN}),
        ("GET", "/api/v1/tokens", None, {TokenRole.ADMIN}),
        ("POST", "/api/v1/tokens", {"name": "x", "role": "viewer"}, {TokenRole.ADMIN}),
        ("GET", "/api/v1/agents/assignments?cluster=alpha", None, {TokenRole.ADMIN, TokenRole.AGENT}),
        ("GET", "/api/v1/agents/wait?after=0&timeout_s=0", None, {TokenRole.ADMIN, TokenRole.AGENT}),
    ],
)
async def test_each_role_may_do_its_own(method: str, path: str, body: object, allowed: set[TokenRole]) -> None:
    for role in TokenRole:
        async with (await world()).client(role) as client:
            answer = await client.request(method, path, json=body)
        if role in allowed:
            assert answer.is_success, (role, answer.text)
        else:
            assert answer.status_code == 403, (role, answer.text)
            assert answer.json()["error"]["code"] == "not_allowed"


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io:80"])
async def test_a_name_that_is_not_ours_is_not_answered(host: str) -> None:
    async with (await world()).client(TokenRole.ADMIN, Host=host) as client:
        answer = await client.get("/api/v1/jobs")
    assert answer.status_code == 421
    assert answer.json()["error"]["code"] == "foreign_host"


@pytest.mark.parametrize("host", ["localhost:8642", "127.0.0.1", "[::1]:8642", "relance.site:443", "RELANCE.site"])
async def test_loopback_and_allowed_names_are_answered(host: str) -> None:
    web = WebSettings(allowed_hosts=frozenset({"relance.site"}))
    async with (await world(web=web)).client(TokenRole.ADMIN, Host=host) as client:
        assert (await client.get("/api/v1/jobs")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"Origin": EVIL}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)
async def test_another_site_changes_nothing_even_with_a_token(headers: dict[str, str]) -> None:
    async with (await world()).client(TokenRole.ADMIN, **headers) as client:
        answer = await client.post("/api/v1/jobs/17/switch", json={"stage": "off"})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "foreign_origin"


async def session_of(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/login", data={"token": secret(TokenRole.OPERATOR)})
    assert answer.status_code == 303, answer.text


async def test_a_session_reads_the_api_but_changes_nothing_without_a_form_mark() -> None:
    made = await world()
    async with made.client(Origin="http://localhost:8642") as client:
        await session_of(client)
        assert (await client.get("/api/v1/me")).json() == {"name": "operator", "role": "operator"}
        refused = await client.post("/api/v1/jobs/17/switch", json={"stage": "off"})
        assert refused.status_code == 403
        identities = made.parts.identities()
        who = await identities.of_session(client.cookies[SESSION_COOKIE])
        assert who is not None
        mark = {"X-Relance-Form": identities.form_mark(who)}
        accepted = await client.post("/api/v1/jobs/17/switch", json={"stage": "off"}, headers=mark)
        assert accepted.status_code == 200


async def test_a_session_without_an_origin_changes_nothing() -> None:
    async with (await world()).client() as client:
        await session_of(client)
        answer = await client.post("/api/v1/jobs/17/switch", json={"stage": "off"})
    assert answer.json()["error"]["code"] == "foreign_origin"


async def test_a_session_ends_with_its_time_its_token_and_any_change_to_its_cookie() -> None:
    made = await world()
    identities = made.parts.identities()
    begun = await identities.begin_session(secret(TokenRole.VIEWER))
    assert begun is not None
    cookie = begun[0]
    assert await identities.of_session(cookie) is not None
    ends_at, rest = cookie.split(".", 1)
    assert await identities.of_session(f"{int(ends_at) + 9999}.{rest}") is None
    assert await identities.of_session(cookie[:-1] + ("0" if cookie[-1] != "0" else "1")) is None
    assert await identities.of_session("") is None
    await made.tokens.drop_token("viewer")
    assert await identities.of_session(cookie) is None
    again = await identities.begin_session(secret(TokenRole.OPERATOR))
    assert again is not None
    made.clock.advance(made.web.session_s)
    assert await identities.of_session(again[0]) is None


@pytest.mark.parametrize("text", ["ü", "a.b.c.\u20ac", "...", "1.2.3.4", "\udc80", "x" * 10_000])
async def test_whatever_is_sent_as_token_or_session_is_nobody(text: str) -> None:
    identities = (await world()).parts.identities()
    assert await identities.of_session(text) is None
    assert await identities.of_bearer(text) is None
    begun = await identities.begin_session(secret(TokenRole.OPERATOR))
    assert begun is not None
    assert not identities.form_is_ours(begun[1], text)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_probe_may_ask_by_address(path: str) -> None:
    async with (await world()).client(Host="10.0.0.5:8642") as client:
        assert (await client.get(path)).json() == {"ok": True}
        assert (await client.get("/api/v1/jobs")).status_code == 421


async def test_a_form_of_one_session_is_not_good_in_another() -> None:
    identities = (await world()).parts.identities()
    first = await identities.begin_session(secret(TokenRole.OPERATOR))
    second = await identities.begin_session(secret(TokenRole.OPERATOR))
    bearer = await identities.of_bearer(secret(TokenRole.OPERATOR))
    assert first is not None
    assert second is not None
    assert bearer is not None
    mark = identities.form_mark(first[1])
    assert identities.form_is_ours(first[1], mark)
    assert not identities.form_is_ours(second[1], mark)
    assert not identities.form_is_ours(bearer, identities.form_mark(bearer))


async def test_a_body_that_is_too_large_is_refused_also_when_it_does_not_say_so() -> None:
    web = WebSettings(body_bytes=100, agent_body_bytes=1000)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 10

    async with (await world(web=web)).client(TokenRole.ADMIN) as client:
        said = await client.post("/api/v1/jobs/17/disagree", json={"text": "x" * 200})
        unsaid = await client.post("/api/v1/jobs/17/disagree", content=pieces())
        agent = await client.post("/api/v1/agents/submit", content=b"x" * 1001)
    assert [said.status_code, unsaid.status_code, agent.status_code] == [413, 413, 413]
    assert said.json()["error"]["code"] == "too_large"


async def test_every_answer_forbids_scripts_frames_and_sniffing() -> None:
    async with (await world()).client() as client:
        for path in ("/healthz", "/api/v1/jobs", "/", "/login", "/nowhere"):
            headers = (await client.get(path)).headers
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
