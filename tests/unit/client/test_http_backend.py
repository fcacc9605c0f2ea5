from __future__ import annotations

import json

import httpx2
import pytest

from relance.client import HttpBackend
from relance.domain.advice import ActionKind, Claim
from relance.domain.encoding import encode
from relance.ports.backends import Assignments, BackendRefusedError, BackendUnavailableError
from relance.testing import history_values as values
from relance.testing.backend_stands import EFFECT
from relance.testing.manual_clocks import ManualClock

Answer = httpx2.Response | Exception
NOTHING = encode(Assignments(assignments=(), position=7, as_of=values.NOON))


class PassingClock(ManualClock):
    """Sleeping passes at once, and is remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, duration_s: float) -> None:
        self.slept.append(duration_s)
        self.advance(duration_s)


class Wire:
    """A server that gives prepared answers and remembers what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []
        self.clock = PassingClock()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def backend(self) -> HttpBackend:
        return HttpBackend("http://relance.site:8642/", "t0ken", self.clock, httpx2.MockTransport(self))


def ok(data: object) -> httpx2.Response:
    return httpx2.Response(200, json=data)


def refused(status: int, code: str = "refused") -> httpx2.Response:
    return httpx2.Response(status, json={"error": {"code": code, "message": "because", "remedy": ""}})


def claim() -> Claim:
    return Claim(
        advice_id="adv-1",
        attempt=values.attempt_key(),
        generation=1,
        cluster="alpha",
        holder="c",
        lease_epoch=1,
        kind=ActionKind.RESTART,
        effect=EFFECT,
    )


async def test_the_token_goes_in_a_header_and_never_in_the_address() -> None:
    wire = Wire(ok(NOTHING))
    async with wire.backend() as backend:
        await backend.assignments("alpha")
    (request,) = wire.asked
    assert request.headers["Authorization"] == "Bearer t0ken"
    assert "t0ken" not in str(request.url)
    assert str(request.url) == "http://relance.site:8642/api/v1/agents/assignments?cluster=alpha"


@pytest.mark.parametrize("failure", [httpx2.ConnectError("refused"), httpx2.ReadTimeout("slow"), refused(503)])
async def test_what_may_be_repeated_is_repeated_after_a_pause(failure: Answer) -> None:
    wire = Wire(failure, failure, ok(NOTHING))
    async with wire.backend() as backend:
        assert (await backend.assignments("alpha")).position == 7
    assert wire.clock.slept == [0.2, 1.0]


async def test_after_the_third_failure_the_server_is_unavailable() -> None:
    wire = Wire(*[httpx2.ConnectError("refused")] * 3)
    async with wire.backend() as backend:
        with pytest.raises(BackendUnavailableError, match="no Relance server answers at http://relance"):
            await backend.assignments("alpha")


@pytest.mark.parametrize("failure", [httpx2.ReadTimeout("slow"), refused(503)])
async def test_a_claim_is_sent_once(failure: Answer) -> None:
    wire = Wire(failure)
    async with wire.backend() as backend:
        with pytest.raises(BackendUnavailableError):
            await backend.claim(claim())
    assert len(wire.asked) == 1
    assert json.loads(wire.asked[0].content) == encode(claim())


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
async def test_what_the_server_refuses_is_refused_and_not_repeated(status: int) -> None:
    wire = Wire(refused(status))
    async with wire.backend() as backend:
        with pytest.raises(BackendRefusedError, match="because"):
            await backend.assignments("alpha")
    assert len(wire.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        refused(500, "internal"),
        refused(409, "conflict"),
        httpx2.Response(200, text="<html>a proxy's page</html>"),
        ok({"not": "assignments"}),
        ok([1, 2, 3]),
        httpx2.Response(302, headers={"Location": "http://elsewhere/"}),
    ],
    ids=["its own fault", "a lost race", "a proxy's page", "something else", "a list", "a redirect"],
)
async def test_an_answer_that_is_none_makes_the_server_unavailable(answer: httpx2.Response) -> None:
    wire = Wire(answer)
    async with wire.backend() as backend:
        with pytest.raises(BackendUnavailableError):
            await backend.assignments("alpha")
    assert len(wire.asked) == 1


async def test_a_long_wait_is_made_of_short_ones() -> None:
    wire = Wire()

    def nothing_new(request: httpx2.Request) -> httpx2.Response:
        wire.asked.append(request)
        wire.clock.advance(float(request.url.params["timeout_s"]))
        return ok({"position": 7})

    async with HttpBackend("http://x", "t", wire.clock, httpx2.MockTransport(nothing_new)) as backend:
        assert await backend.wait(7, 60) == 7
    assert [request.url.params["timeout_s"] for request in wire.asked] == ["25.0", "25.0", "10.0"]


async def test_a_wait_ends_with_the_first_news() -> None:
    wire = Wire(ok({"position": 8}))
    async with wire.backend() as backend:
        assert await backend.wait(7, 600) == 8


async def test_environment_proxies_are_not_given_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.site:3128")
    monkeypatch.setenv("ALL_PROXY", "http://proxy.site:3128")
    backend = HttpBackend("http://127.0.0.1:9", "t", PassingClock())
    with pytest.raises(BackendUnavailableError, match=r"127\.0\.0\.1:9"):
        await backend.assignments("alpha")
    await backend.close()
    await backend.close()
