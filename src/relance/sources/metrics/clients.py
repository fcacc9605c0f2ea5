"""The query API that Prometheus and VictoriaMetrics share, asked in one way that both take.

Results are held in bulk: a list of numbers for each series, never an object for a sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relance.sources.exchanges import Exchange, StoreAnswerError
from relance.sources.turns import Turns

Labels = Mapping[str, str]
_QUERY, _RANGE, _NAMES = "/api/v1/query", "/api/v1/query_range", "/api/v1/label/__name__/values"
_LAST_TIME_S = 2.0**53 / 1e6
"""About the year 2255: later times, and those that are no numbers, are none."""
_REMEDY = "see that the url is that of Prometheus or VictoriaMetrics, up to what comes before /api/v1"


@dataclass(slots=True)
class Vector:
    """One value of each series at one time, side by side. `at` is the server's time, None without any series."""

    labels: list[Labels] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    at: float | None = None


@dataclass(slots=True)
class Matrix:
    """Values of each series over time, side by side, in the order of time."""

    labels: list[Labels] = field(default_factory=list)
    times: list[list[float]] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)


class MetricClient:
    """Asks one store. All methods raise StoreError."""

    def __init__(self, exchange: Exchange, turns: Turns) -> None:
        self._exchange = exchange
        self._turns = turns
        self.host = exchange.host
        """Who is asked."""
        self.requests = 0
        """How many were sent so far."""
        self.warning = ""
        """What the store warned of last: an answer that is not whole."""

    async def vector(self, query: str, at: float | None = None) -> Vector:
        """The values at a time; without one at the server's own."""
        kind, result = await self._data(_QUERY, {"query": query, **_time(at)})
        if kind == "scalar":
            result = [{"metric": {}, "value": result}]
        elif kind != "vector":
            raise self._unlike(f"resultType {kind}")
        found = Vector()
        try:
            for row in result:
                time, value = row["value"]
                found.labels.append(_checked(row["metric"]))
                found.values.append(float(value))
                found.at = _finite(time)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise self._unlike("a series without labels and value") from error
        return found

    async def matrix(self, query: str, at: float | None = None) -> Matrix:
        """The samples that a selector with a range has, as they are in the store."""
        return self._matrix(*await self._data(_QUERY, {"query": query, **_time(at)}))

    async def over(self, query: str, start: float, end: float, step_s: float) -> Matrix:
        """The values of an expression in equal steps."""
        form = {"query": query, "start": _shown(start), "end": _shown(max(start, end)), "step": _shown(step_s)}
        return self._matrix(*await self._data(_RANGE, form))

    async def names(self, selector: str = "") -> frozenset[str]:
        """The names of all series that there are."""
        await self._turns.take()
        self.requests += 1
        body = await self._exchange.get(_NAMES, {"match[]": selector} if selector else {})
        data = self._told(self._exchange.document(body))
        if not isinstance(data, list):
            raise self._unlike("no list of names")
        return frozenset(name for name in data if isinstance(name, str))

    async def close(self) -> None:
        """Give the connections back; may be called twice."""
        await self._exchange.close()

    async def _data(self, path: str, form: dict[str, str]) -> tuple[str, Any]:
        await self._turns.take()
        self.requests += 1
        # VictoriaMetrics hides and aligns what is fresh unless it is told not to keep answers; the other knows no such.
        data = self._told(await self._exchange.json(path, {**form, "nocache": "1"}))
        if not isinstance(data, dict) or not isinstance(data.get("result"), list):
            raise self._unlike("no result")
        return str(data.get("resultType")), data["result"]

    def _told(self, answer: Any) -> Any:  # noqa: ANN401 - JSON data
        if not isinstance(answer, dict) or answer.get("status") != "success" or "data" not in answer:
            raise self._unlike("no answer of the query API")
        warnings = answer.get("warnings")
        told = answer.get("isPartial") and "its answer is not whole"
        self.warning = str(warnings[0])[:200] if isinstance(warnings, list) and warnings else str(told or "")
        return answer["data"]

    def _matrix(self, kind: str, result: Any) -> Matrix:  # noqa: ANN401 - JSON data
        if kind != "matrix":
            raise self._unlike(f"resultType {kind}")
        found = Matrix()
        try:
            for row in result:
                pairs = row["values"]
                times = [_finite(pair[0]) for pair in pairs]
                values = [float(pair[1]) for pair in pairs]
                found.labels.append(_checked(row["metric"]))
                found.times.append(times)
                found.values.append(values)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            raise self._unlike("a series without labels and values") from error
        return found

    def _unlike(self, what: str) -> StoreAnswerError:
        return StoreAnswerError(f"{self._exchange.host} answered with {what}", _REMEDY)


def _checked(labels: Any) -> Labels:  # noqa: ANN401 - JSON data
    if not isinstance(labels, dict):
        message = "labels are no object"
        raise TypeError(message)
    return labels


def _finite(time: Any) -> float:  # noqa: ANN401 - JSON data
    at = float(time)
    if not abs(at) <= _LAST_TIME_S:
        message = f"{at} is no time"
        raise ValueError(message)
    return at


def _time(at: float | None) -> dict[str, str]:
    return {} if at is None else {"time": _shown(at)}


def _shown(number: float) -> str:
    if not math.isfinite(number):
        message = f"{number} is no time"
        raise ValueError(message)
    return f"{number:.3f}".rstrip("0").rstrip(".")
