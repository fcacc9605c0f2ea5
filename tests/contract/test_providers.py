"""Every attribution provider keeps the same promises, each against a real service on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from relance.domain.faults import FaultDomain, Remedy
from relance.domain.verdicts import Opinion
from relance.ports.providers import NotAnswerableError, ProviderError, ProviderQuestion
from relance.providers.attrsvc import AttrsvcProvider
from relance.providers.exchanges import ANSWER_BYTES, Exchange
from relance.providers.windows import WindowProvider
from relance.testing.manual_clocks import ManualClock
from relance.testing.provider_contract import QUESTION, ProviderContract, ProviderStand
from tests.contract.loopback_services import (
    Manner,
    Request,
    Service,
    answers,
    breaks_off,
    drips,
    floods,
    hangs,
    says,
    talks_nonsense,
)

VERDICT = {
    "domain": "interconnect", "cause": "switch_port", "remedy": "restart_excluding", "confidence": 0.7,
    "suspects": ["n1", {"node": "n2", "why": "its switch"}], "explanation": "two links of one switch", "version": 9,
}  # fmt: skip
BAD_ANSWERS: dict[str, Manner] = {
    "an error": answers("500 Internal Server Error", b"boom"),
    "a redirect": answers("302 Found", headers="Location: http://127.0.0.1:9/\r\n"),
    "no JSON": answers("200 OK", b"<html>"),
    "nothing": answers("200 OK"),
    "a list": says([1, 2]),
    "deep": answers("200 OK", b"[" * 100_000),
    "not UTF-8": answers("200 OK", b'{"cause": "\xff\xfe"}'),
    "packed": answers("200 OK", gzip.compress(b"{}"), "Content-Encoding: gzip\r\n"),
    "endless": floods,
    "cut off": breaks_off,
    "no HTTP": talks_nonsense,
    "drips": drips,
    "never": hangs,
}


class PassingClock(ManualClock):
    """Sleeping passes at once."""

    async def sleep(self, duration_s: float) -> None:
        self.advance(duration_s)
        await asyncio.sleep(0)


async def judged(manner: Manner, timeout_s: float = 5.0) -> Opinion | None:
    """What a plain HTTP provider makes of one answer."""
    async with Service(manner) as service:
        provider = WindowProvider("second", Exchange(service.url, timeout_s), ManualClock())
        try:
            return await provider.ask(QUESTION)
        finally:
            await provider.close()


class TestWindowProvider(ProviderContract):
    @pytest.fixture
    async def stand(self) -> AsyncIterator[ProviderStand]:
        async with AsyncExitStack() as stack:
            good, bad, slow = [
                await stack.enter_async_context(Service(manner))
                for manner in (says(VERDICT), answers("403 Forbidden"), hangs)
            ]
            providers = [
                WindowProvider("second", Exchange(service.url, 0.3 if service is slow else 5), ManualClock())
                for service in (good, bad, slow)
            ]
            for provider in providers:
                stack.push_async_callback(provider.close)
            yield ProviderStand(working=providers[0], failing=providers[1], stuck=providers[2])

    async def test_the_service_is_sent_the_window_and_what_we_found(self) -> None:
        async with Service(says({})) as service:
            exchange = Exchange(service.url, header=("X-Token", "t0ken"))
            provider = WindowProvider("second", exchange, ManualClock())
            assert await provider.ask(QUESTION) is None
            await provider.close()
            (request,) = service.requests
        assert request.line == "POST /s3cret HTTP/1.1"
        assert "x-token: t0ken" in request.head.lower()
        excerpt = request.data.pop("excerpts")[0]
        assert request.data | {"excerpts": []} == {
            "schema_version": 1, "cluster": "alpha", "job": "17", "attempt": 1,
            "window": {"start": "2026-03-01T12:30:00.000000Z", "end": "2026-03-01T12:41:00.000000Z"},
            "nodes": ["n1", "n2"], "ranks": [0, 1], "detection_signal": "crash",
            "cause": "ib_port_down", "domain": "interconnect", "excerpts": [],
        }  # fmt: skip
        assert (excerpt["file"], excerpt["node"], excerpt["rank"]) == ("/logs/17.out", "n1", 3)
        assert len(excerpt["text"]) == 2000

    async def test_the_answer_becomes_an_opinion(self) -> None:
        opinion = await judged(says(VERDICT))
        assert opinion == Opinion(
            provider="second", at=ManualClock().now(), domain=FaultDomain.INTERCONNECT, cause="switch_port",
            remedy=Remedy.RESTART_EXCLUDING, suspects=("n1", "n2"), confidence=0.7, text="two links of one switch",
        )  # fmt: skip

    async def test_nothing_to_say_is_no_error(self) -> None:
        assert await judged(answers("204 No Content")) is None
        assert await judged(says({"confidence": 0.1, "domain": "unknown"})) is None

    @pytest.mark.parametrize("name", BAD_ANSWERS)
    async def test_whatever_else_comes_is_an_error_soon_and_tells_no_secret(self, name: str) -> None:
        began = time.monotonic()
        with pytest.raises(ProviderError) as raised:
            await judged(BAD_ANSWERS[name], 1.0)
        assert time.monotonic() - began < 30
        assert "s3cret" not in str(raised.value)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"domain": "network"},
            {"remedy": "drain"},
            {"confidence": 1.5},
            {"confidence": "high"},
            {"suspects": "n1"},
            {"suspects": [{"name": "n1"}]},
            {"suspects": [f"n{number}" for number in range(65)]},
            {"suspects": ["n" * 254]},
            {"suspects": [""]},
            {"cause": "c" * 121},
            {"explanation": "e" * 4001},
            {"explanation": None},
        ],
        ids=str,
    )
    async def test_a_field_that_is_wrong_is_an_error_that_names_it_and_quotes_nothing(
        self, wrong: dict[str, Any]
    ) -> None:
        with pytest.raises(ProviderError, match=next(iter(wrong))) as raised:
            await judged(says({**VERDICT, **wrong}))
        assert len(str(raised.value)) < 300

    async def test_an_answer_of_the_largest_size_is_read(self) -> None:
        body = json.dumps({"cause": "big"}).encode()
        opinion = await judged(answers("200 OK", body + b" " * (ANSWER_BYTES - len(body))))
        assert opinion is not None
        with pytest.raises(ProviderError, match="more than 262144 bytes"):
            await judged(answers("200 OK", body + b" " * (ANSWER_BYTES - len(body) + 1)))


COMPLETED = {
    "status": "completed",
    "recommendation": {"action": "STOP", "source": "log_analyzer"},
    "result": {
        "module": "log_analyzer",
        "result": [{"attribution_text": "a shape mismatch", "auto_resume_explanation": "it fails again"}],
    },
}


class Attrsvc:
    """What NVRx's service does with a log, step by step: one status after another, the last one for ever."""

    def __init__(self, *steps: tuple[str, object]) -> None:
        self._steps = list(steps)

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.line.startswith("POST") and self._steps[0][0] == "200 OK":
            await says({"submitted": True, "mode": "SINGLE"})(request, writer)
            return
        status, data = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        await answers(status, json.dumps(data).encode())(request, writer)


async def asked(*steps: tuple[str, object], question: ProviderQuestion = QUESTION) -> tuple[Any, list[Request], float]:
    """What is made of the service's answers, what it was sent, and for how many seconds it was waited."""
    async with Service(Attrsvc(*steps)) as service:
        clock = PassingClock()
        began = clock.monotonic()
        provider = AttrsvcProvider("nvrx", Exchange(service.url.removesuffix("/s3cret")), clock, wait_s=120)
        result: Any
        try:
            result = await provider.ask(question)
        except ProviderError as error:
            result = error
        await provider.close()
        return result, service.requests, clock.monotonic() - began


class TestAttrsvcProvider(ProviderContract):
    @pytest.fixture
    async def stand(self) -> AsyncIterator[ProviderStand]:
        async with AsyncExitStack() as stack:
            good, bad, slow = [
                await stack.enter_async_context(Service(manner))
                for manner in (Attrsvc(("200 OK", COMPLETED)), answers("500 Internal Server Error"), hangs)
            ]
            providers = [
                AttrsvcProvider("nvrx", Exchange(service.url, 0.3 if service is slow else 5), PassingClock())
                for service in (good, bad, slow)
            ]
            for provider in providers:
                stack.push_async_callback(provider.close)
            yield ProviderStand(working=providers[0], failing=providers[1], stuck=providers[2])

    async def test_it_is_told_the_log_and_asked_until_it_has_judged_it(self) -> None:
        pending, going = ("200 OK", {"status": "pending"}), ("200 OK", {"status": "in_flight"})
        opinion, requests, waited_s = await asked(pending, going, ("200 OK", COMPLETED))
        assert isinstance(opinion, Opinion)
        assert (opinion.remedy, opinion.domain) == (Remedy.STOP, FaultDomain.UNKNOWN)
        assert opinion.text == "a shape mismatch it fails again"
        assert requests[0].line == "POST /logs HTTP/1.1"
        assert requests[0].data == {
            "log_path": "/logs/17.out", "user": "ada", "job_id": "17", "cycle_id": 1, "analysis_intent": "terminal",
        }  # fmt: skip
        assert len(requests) == 4
        for request in requests[1:]:
            query = urlsplit(request.line.split()[1])
            assert query.path == "/logs"
            assert parse_qs(query.query) == {"log_path": ["/logs/17.out"], "wait": ["false"]}
        assert waited_s == 5.0

    @pytest.mark.parametrize(
        ("action", "remedy"),
        [("RESTART", Remedy.RESTART), ("CONTINUE", Remedy.NONE), ("UNKNOWN", None), ("TIMEOUT", None)],
    )
    async def test_each_recommendation_has_its_remedy(self, action: str, remedy: Remedy | None) -> None:
        opinion, _, _ = await asked(("200 OK", {**COMPLETED, "recommendation": {"action": action}}))
        assert opinion.remedy is remedy

    async def test_not_knowing_without_a_word_is_nothing_to_say(self) -> None:
        bare = {"status": "completed", "recommendation": {"action": "UNKNOWN"}, "result": {}}
        assert (await asked(("200 OK", bare)))[0] is None

    @pytest.mark.parametrize(("code", "status"), [("outside_root", "403 Forbidden"), ("NOT_FOUND", "404 Not Found")])
    async def test_a_log_that_it_cannot_judge_says_nothing_against_the_service(self, code: str, status: str) -> None:
        error, _, _ = await asked((status, {"error_code": code, "message": "/logs/17.out"}))
        assert isinstance(error, NotAnswerableError)

    async def test_a_full_service_is_asked_again_a_little_later(self) -> None:
        full = ("503 Service Unavailable", {"error_code": "job_limit_reached"})
        opinion, requests, waited_s = await asked(full, full, ("200 OK", COMPLETED))
        assert isinstance(opinion, Opinion)
        assert [request.line.split()[0] for request in requests] == ["POST", "POST", "POST", "GET"]
        assert waited_s == 15.0

    @pytest.mark.parametrize(
        "step",
        [
            ("503 Service Unavailable", {"error_code": "job_limit_reached"}),
            ("200 OK", {"status": "in_flight"}),
        ],
        ids=["full", "never done"],
    )
    async def test_it_is_not_waited_for_longer_than_is_set(self, step: tuple[str, object]) -> None:
        error, _, waited_s = await asked(step)
        assert isinstance(error, ProviderError)
        assert "120 s" in str(error)
        assert waited_s <= 120

    @pytest.mark.parametrize(
        "data",
        [
            {"status": "failed"}, {"status": "bewildered"}, {}, [], {"status": "completed"},
            {"status": "completed", "recommendation": {"action": ["STOP"]}},
            {"status": "completed", "recommendation": {"action": "DRAIN"}},
        ],
        ids=str,
    )  # fmt: skip
    async def test_an_answer_without_a_recommendation_is_an_error(self, data: object) -> None:
        error, _, _ = await asked(("200 OK", data))
        assert isinstance(error, ProviderError)
        assert not isinstance(error, NotAnswerableError)

    async def test_a_log_that_still_grows_is_not_sent(self) -> None:
        result, requests, _ = await asked(("200 OK", COMPLETED), question=replace(QUESTION, is_over=False))
        assert (result, requests) == (None, [])

    async def test_a_job_without_a_known_log_cannot_be_asked_about(self) -> None:
        result, requests, _ = await asked(("200 OK", COMPLETED), question=replace(QUESTION, log_paths=()))
        assert isinstance(result, NotAnswerableError)
        assert requests == []
