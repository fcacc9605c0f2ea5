"""A service that takes the window of a job and returns a verdict; ask-other-attribution.md in the docs has the form."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from relance.domain.encoding import encode
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.findings import RuleHit
from relance.domain.verdicts import CaseFile, Opinion
from relance.ports.clocks import Clock
from relance.ports.providers import CAUSE_CHARS, NODE_CHARS, SUSPECTS, ProviderError, ProviderQuestion
from relance.providers.exchanges import Exchange

SCHEMA_VERSION = 1
_BEFORE_FIRST_SIGN = timedelta(minutes=10)
"""Where it is not known when an attempt began, its window begins so long before the first sign."""
_EXCERPTS = 40
_EXCERPT_CHARS = 2000
_EXPLANATION_CHARS = 4000
_PROBLEMS_SHOWN = 3


class WindowProvider:
    """Implements `relance.ports.providers.AttributionProvider` by one POST per question."""

    def __init__(self, name: str, exchange: Exchange, clock: Clock) -> None:
        """Ask by `exchange`, which is closed with this."""
        self._name = name
        self._exchange = exchange
        self._clock = clock

    @property
    def name(self) -> str:
        return self._name

    async def ask(self, question: ProviderQuestion) -> Opinion | None:
        reply = await self._exchange.post(request_of(question))
        if reply.status == HTTPStatus.NO_CONTENT:
            return None
        if reply.status != HTTPStatus.OK:
            raise ProviderError(f"it answered with HTTP {reply.status}")
        answer = read_answer(reply.body)
        if not answer.says_something:
            return None
        return Opinion(
            provider=self._name,
            at=self._clock.now(),
            domain=answer.domain,
            cause=answer.cause,
            remedy=answer.remedy,
            suspects=tuple(dict.fromkeys(item if isinstance(item, str) else item.node for item in answer.suspects)),
            confidence=answer.confidence,
            text=answer.explanation,
        )

    async def close(self) -> None:
        await self._exchange.close()


NodeName = Annotated[str, Field(min_length=1, max_length=NODE_CHARS)]


class NamedNode(BaseModel):
    """A suspect with more to it than its name."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    node: NodeName


class WindowAnswer(BaseModel):
    """What a service answers. Nothing is needed; what is not listed here is ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    domain: FaultDomain = FaultDomain.UNKNOWN
    """Where the fault lies, one of our domains."""
    cause: str = Field(default="", max_length=CAUSE_CHARS)
    """A short name of what happened."""
    remedy: Remedy | None = None
    """What would help, one of our remedies."""
    suspects: tuple[NodeName | NamedNode, ...] = Field(default=(), max_length=SUSPECTS)
    """Nodes that are to blame: names, or objects with a `node`."""
    confidence: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    explanation: str = Field(default="", max_length=_EXPLANATION_CHARS)
    """A sentence or two for people."""

    @property
    def says_something(self) -> bool:
        """Whether there is anything in it."""
        known = self.domain is not FaultDomain.UNKNOWN or self.remedy is not None
        return known or bool(self.cause or self.suspects or self.explanation)


def read_answer(body: bytes) -> WindowAnswer:
    """The answer in a body. Raises ProviderError, which names the fields that are wrong and quotes nothing."""
    try:
        return WindowAnswer.model_validate_json(body)
    except ValidationError as error:
        wrong = [
            f"{'.'.join(str(part) for part in item['loc']) or 'the answer'} ({item['type']})"
            for item in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        shown = ", ".join(wrong[:_PROBLEMS_SHOWN])
        raise ProviderError(f"its answer has not the form that is agreed on: {shown}") from None


def request_of(question: ProviderQuestion) -> dict[str, object]:
    """The JSON object that a service is sent."""
    case, verdict = question.case, question.verdict
    start, end = _window(case)
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster": case.attempt.job.cluster,
        "job": case.attempt.job.raw_id,
        "attempt": case.attempt.restart_count,
        "window": {"start": start, "end": end},
        "nodes": list(case.nodes),
        "ranks": sorted(case.rank_to_node),
        "detection_signal": case.findings[0].kind.value if case.findings else "",
        "cause": verdict.cause,
        "domain": verdict.domain.value,
        "excerpts": [_excerpt(hit) for hit in verdict.evidence[:_EXCERPTS]],
    }


def _window(case: CaseFile) -> tuple[object, object]:
    first = min((item.first_evidence_at for item in case.findings), default=case.as_of)
    started = case.job.started_at if case.job is not None else None
    ended = case.job.ended_at if case.job is not None else None
    return encode(started or first - _BEFORE_FIRST_SIGN), encode(ended or case.as_of)


def _excerpt(hit: RuleHit) -> dict[str, object]:
    return {
        "at": encode(hit.when),
        "file": hit.file,
        "line": hit.line,
        "node": hit.node,
        "rank": hit.rank,
        "device": hit.device,
        "symptom": hit.symptom,
        "text": hit.excerpt[:_EXCERPT_CHARS],
    }
