"""The contract of `relance.ports.providers.AttributionProvider`, as tests that every implementation runs.

A test class of one's own inherits from `ProviderContract` and has a fixture `stand`. Tests are coroutines:
pytest-asyncio in automatic mode, or a plug-in like it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from relance.domain.encoding import decode, encode
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, Finding, FindingKind, RuleHit
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.verdicts import CaseFile, Opinion, Verdict
from relance.ports.providers import (
    CAUSE_CHARS,
    NODE_CHARS,
    SUSPECTS,
    AttributionProvider,
    ProviderError,
    ProviderQuestion,
)

_PATIENCE_S = 20.0
_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_ATTEMPT = AttemptKey(job=JobKey(cluster="alpha", raw_id="17", submitted_at=_AT), restart_count=1)
_LINE = RuleHit(
    rule="ib-port-down",
    symptom="ib_port_down",
    domain=FaultDomain.INTERCONNECT,
    role=Role.ROOT,
    suspect=SuspectKind.SELF,
    restart=RestartHint.EXCLUDE,
    weight=0.8,
    scope=Scope.KERNEL,
    seen_at=_AT + timedelta(minutes=40),
    node="n1",
    rank=3,
    file="/logs/17.out",
    offset=812,
    excerpt='größe "\x1b[31m" $(reboot) \x00 → link down ' + "x" * 8000,
)

QUESTION = ProviderQuestion(
    case=CaseFile(
        incident_id="inc-1",
        attempt=_ATTEMPT,
        as_of=_AT + timedelta(minutes=41),
        nodes=("n1", "n2"),
        rank_to_node={0: "n1", 1: "n2"},
        findings=(
            Finding(
                id="fnd-1",
                attempt=_ATTEMPT,
                detector="crash",
                kind=FindingKind.CRASH,
                certainty=Certainty.CONFIRMED,
                symptom="ib_port_down",
                summary="a link went down",
                first_evidence_at=_AT + timedelta(minutes=40),
                symptom_at=_AT + timedelta(minutes=40),
                hits=(_LINE,),
            ),
        ),
    ),
    verdict=Verdict(
        domain=FaultDomain.INTERCONNECT,
        cause="ib_port_down",
        summary="a link went down",
        remedy=Remedy.RESTART,
        remedy_reason="such faults pass with a restart",
        confidence=0.6,
        fingerprint="fp-1",
        evidence=(_LINE,),
    ),
    user="ada",
    log_paths=("/logs/17.out",),
    is_over=True,
)
"""A question with everything that a careless implementation stumbles over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStand:
    """What the contract's tests are given.

    `working` has an opinion on every question, `failing` reaches a service that refuses, `stuck` one that never answers
    (with a time limit well under 20 s).
    """

    working: AttributionProvider
    failing: AttributionProvider
    stuck: AttributionProvider


class ProviderContract:
    """Everything that a provider promises."""

    async def test_it_has_a_name(self, stand: ProviderStand) -> None:
        assert stand.working.name

    async def test_an_opinion_is_of_the_provider_and_can_be_kept(self, stand: ProviderStand) -> None:
        opinion = await stand.working.ask(QUESTION)
        assert opinion is not None
        assert opinion.provider == stand.working.name
        assert opinion.at.tzinfo is not None
        assert (opinion.late, opinion.effect) == (False, "")
        assert len(opinion.cause) <= CAUSE_CHARS
        assert len(opinion.suspects) <= SUSPECTS
        assert all(0 < len(node) <= NODE_CHARS for node in opinion.suspects)
        assert opinion.confidence is None or 0 <= opinion.confidence <= 1
        assert decode(Opinion, encode(opinion)) == opinion

    async def test_a_question_of_which_little_is_known_does_no_harm(self, stand: ProviderStand) -> None:
        bare = CaseFile(incident_id="inc-1", attempt=_ATTEMPT, as_of=_AT, nodes=())
        verdict = replace(QUESTION.verdict, evidence=(), domain=FaultDomain.UNKNOWN)
        with contextlib.suppress(ProviderError):
            await stand.working.ask(ProviderQuestion(case=bare, verdict=verdict))

    async def test_questions_at_the_same_time_are_all_answered(self, stand: ProviderStand) -> None:
        answers = await asyncio.gather(*(stand.working.ask(QUESTION) for _ in range(4)))
        assert all(answer is not None for answer in answers)

    async def test_a_service_that_refuses_is_an_error_that_says_why(self, stand: ProviderStand) -> None:
        for _ in range(2):
            with pytest.raises(ProviderError, match=r"\w"):
                await stand.failing.ask(QUESTION)

    async def test_a_service_that_never_answers_is_an_error_in_time(self, stand: ProviderStand) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            with pytest.raises(ProviderError, match=r"\w"):
                await stand.stuck.ask(QUESTION)

    async def test_a_question_can_be_taken_back(self, stand: ProviderStand) -> None:
        asking = asyncio.create_task(stand.stuck.ask(QUESTION))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    async def test_closing_twice_does_no_harm(self, stand: ProviderStand) -> None:
        await stand.working.ask(QUESTION)
        await stand.working.close()
        await stand.working.close()
