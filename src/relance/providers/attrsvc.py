"""The attribution service of NVRx (attrsvc): it is told the path of a job's log, and is asked until it has judged it.

The service's own description says how: POST /logs, then GET /logs?wait=false; answers that are errors bear an
`error_code`; the `action` of its `recommendation` is what clients go by. It reads logs, and tells restart from stop; it
names no nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus

from relance.domain.faults import Remedy
from relance.domain.verdicts import Opinion
from relance.ports.clocks import Clock
from relance.ports.providers import TEXT_CHARS, NotAnswerableError, ProviderError, ProviderQuestion
from relance.providers.exchanges import Exchange, Reply

_POLL_S = 2.0
_LONGEST_POLL_S = 15.0
"""Its default limit is 60 questions a minute from all clients."""
_BUSY_S = 5.0
_LONGEST_BUSY_S = 60.0
_OF_THE_LOG = frozenset({
    "invalid_path", "outside_root", "not_found", "not_readable", "not_regular", "empty_file", "logs_dir_not_readable",
    "invalid_parameter", "fr_dump_not_found",
})  # fmt: skip
"""Codes that say something of this one log: the service itself is well."""
_BUSY = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS})
_REMEDIES = {"STOP": Remedy.STOP, "RESTART": Remedy.RESTART, "CONTINUE": Remedy.NONE, "UNKNOWN": None, "TIMEOUT": None}
_TELLING = ("reason", "explanation", "attribution_text", "auto_resume_explanation", "error")
"""Fields with words for people, in a recommendation and in the items of a result."""
_DEEPEST = 3


class AttrsvcProvider:
    """Implements `relance.ports.providers.AttributionProvider` for attempts that have ended."""

    def __init__(self, name: str, exchange: Exchange, clock: Clock, wait_s: float = 300.0) -> None:
        """Ask by `exchange`, which is closed with this, for `wait_s` in all."""
        self._name = name
        self._exchange = exchange
        self._clock = clock
        self._wait_s = wait_s

    @property
    def name(self) -> str:
        return self._name

    async def ask(self, question: ProviderQuestion) -> Opinion | None:
        if not question.is_over:
            return None  # it keeps what it made of a log; a log that still grows would be judged for good
        if not question.log_paths:
            raise NotAnswerableError("the path of the job's log is not known")
        until = self._clock.monotonic() + self._wait_s
        path = question.log_paths[0]
        attempt = question.case.attempt
        order = {
            "log_path": path,
            "user": question.user or "unknown",
            "job_id": attempt.job.raw_id,
            "cycle_id": attempt.restart_count,
            "analysis_intent": "terminal",
        }
        await self._take_in(order, until)
        return self._opinion(await self._judged(path, until))

    async def close(self) -> None:
        await self._exchange.close()

    async def _take_in(self, order: dict[str, object], until: float) -> None:
        pause_s = _BUSY_S
        while True:
            reply = await self._exchange.post(order, "/logs")
            if reply.status not in _BUSY:
                _object(reply)
                return
            await self._pause(pause_s, until, "it takes no more jobs for the moment")
            pause_s = min(2 * pause_s, _LONGEST_BUSY_S)

    async def _judged(self, path: str, until: float) -> dict[str, object]:
        pause_s, busy_s = _POLL_S, _BUSY_S
        while True:
            reply = await self._exchange.get("/logs", {"log_path": path, "wait": "false"})
            if reply.status in _BUSY:
                await self._pause(busy_s, until, "it is busy")
                busy_s = min(2 * busy_s, _LONGEST_BUSY_S)
                continue
            found = _object(reply)
            match found.get("status"):
                case "completed":
                    return found
                case "pending" | "in_flight":
                    await self._pause(pause_s, until, "its analysis is not done")
                    pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)
                case "failed":
                    raise ProviderError("its analysis failed")
                case _:
                    raise ProviderError("its answer has no status that is known")

    async def _pause(self, pause_s: float, until: float, why: str) -> None:
        if self._clock.monotonic() + pause_s > until:
            raise ProviderError(f"{why}, after {self._wait_s:g} s")
        await self._clock.sleep(pause_s)

    def _opinion(self, found: dict[str, object]) -> Opinion | None:
        recommendation = found.get("recommendation")
        action = recommendation.get("action") if isinstance(recommendation, dict) else None
        if not isinstance(action, str) or action not in _REMEDIES:
            raise ProviderError("its answer has no recommendation that is known")
        told = (*_words(recommendation), *_words(found.get("result")))
        text = " ".join(" ".join(dict.fromkeys(told)).split())[:TEXT_CHARS]
        remedy = _REMEDIES[action]
        if remedy is None and not text:
            return None
        return Opinion(provider=self._name, at=self._clock.now(), remedy=remedy, text=text)


def _object(reply: Reply) -> dict[str, object]:
    """The JSON object of a good answer. Raises NotAnswerableError or ProviderError for any other."""
    try:
        data = json.loads(reply.body)
    except (ValueError, RecursionError):
        data = None
    if reply.status != HTTPStatus.OK:
        code = data.get("error_code") if isinstance(data, dict) else None
        known = str(code).lower()
        if known in _OF_THE_LOG:
            raise NotAnswerableError(f"it cannot judge this log: {known}")
        raise ProviderError(f"it answered with HTTP {reply.status}")
    if not isinstance(data, dict):
        raise ProviderError("its answer is no JSON object")
    return data


def _words(data: object, depth: int = 0) -> Iterator[str]:
    """The words for people in a piece of the answer, in their order."""
    if depth > _DEEPEST:
        return
    if isinstance(data, list):
        for item in data:
            yield from _words(item, depth + 1)
    elif isinstance(data, dict):
        yield from (value for key in _TELLING if isinstance(value := data.get(key), str) and value)
        yield from _words(data.get("result"), depth + 1)
