"""The double's paths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from relance.testing.loki_double.faults import Faults
from relance.testing.loki_double.logql import LogQuery, parse, seconds_of
from relance.testing.loki_double.pushes import Meter, PushError, push
from relance.testing.loki_double.shelves import Asked, Shelf, matrix_answer, streams_answer, vector_answer
from relance.testing.loki_double.tokens import QueryError

_NS = 1_000_000_000
_RANGE_S = 30 * 86400 + 3600
_SECONDS_DIGITS = 10
_BUILD = {"version": "", "revision": "", "branch": "", "buildUser": "", "buildDate": "", "goVersion": "go1.26.6"}


class RefusedError(Exception):
    """A request that is refused with a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class LokiDouble:
    """A Loki.

    Args:
        now_ns: The time.
        has_tenants: Whether each request has to name its tenant.
        most_entries: The limit of entries in one answer.
    """

    def __init__(self, now_ns: Callable[[], int], *, has_tenants: bool = False, most_entries: int = 5000) -> None:
        self._now_ns = now_ns
        self._has_tenants = has_tenants
        self._most_entries = most_entries
        self._shelves: dict[str, Shelf] = {}
        self._meter = Meter(at_ns=now_ns())
        self._faults = Faults()
        self._asked = 0

    def app(self) -> Starlette:
        """The application."""
        api = "/loki/api/v1"
        return Starlette(
            routes=[
                Route(f"{api}/push", self._guarded(self._push), methods=["POST"]),
                Route(f"{api}/query_range", self._guarded(self._range), methods=["GET", "POST"]),
                Route(f"{api}/query", self._guarded(self._instant), methods=["GET", "POST"]),
                Route(f"{api}/labels", self._guarded(self._labels), methods=["GET", "POST"]),
                Route(f"{api}/label/{{name}}/values", self._guarded(self._values)),
                Route(f"{api}/series", self._guarded(self._series), methods=["GET", "POST"]),
                Route(f"{api}/index/stats", self._guarded(self._stats)),
                Route(f"{api}/status/buildinfo", self._buildinfo),
                Route(f"{api}/tail", self._tail),
                Route("/ready", self._ready),
                Route("/double/faults", self._set_faults, methods=["POST"]),
                Route("/double/asked", self._count),
            ],
            exception_handlers={404: _not_found},
        )

    def _guarded(self, handle: Callable[[Shelf, Request, dict[str, str]], Any]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            self._asked += 1
            struck = await self._faults.strike(request.url.path)
            if struck is not None:
                return struck
            tenant = request.headers.get("X-Scope-OrgID", "")
            if self._has_tenants and not tenant:
                return _text("no org id\n", 401)
            if "|" in tenant:
                return _text("multiple org IDs present\n", 500)
            shelf = self._shelves.setdefault(tenant if self._has_tenants else "", Shelf())
            params = dict(request.query_params)
            if request.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded"):
                params |= {name: str(value) for name, value in (await request.form()).items()}
            try:
                found = handle(shelf, request, params)
                return found if isinstance(found, Response) else await found
            except RefusedError as error:
                return _text(str(error), error.status)
            except QueryError as error:
                return _text(str(error), 400)

        return answer

    async def _push(self, shelf: Shelf, request: Request, _: Mapping[str, str]) -> Response:
        try:
            push(shelf, self._meter, await request.body(), self._now_ns())
        except PushError as error:
            return _text(str(error), error.status)
        return Response(status_code=204)

    def _range(self, shelf: Shelf, request: Request, params: Mapping[str, str]) -> Response:
        since, until = self._times(params)
        if until <= since:
            raise RefusedError(400, "end timestamp must not be before or equal to start time")
        limit = _number(params.get("limit", "100"))
        if limit <= 0:
            raise RefusedError(400, "limit must be a positive value")
        direction = params.get("direction", "backward").lower()
        if direction not in ("forward", "backward"):
            raise RefusedError(400, f"invalid direction '{params['direction']}'")
        query = parse(params.get("query", ""))
        if limit > self._most_entries:
            text = f"limit > max_entries_limit_per_query ({limit} > {self._most_entries})"
            raise RefusedError(400, f"max entries limit per query exceeded, {text}")
        if until - since > _RANGE_S * _NS:
            text = f"query length: {_duration(until - since)}, limit: 30d1h"
            raise RefusedError(400, f"the query time range exceeds the limit ({text})")
        if not isinstance(query, LogQuery):
            step_s = _step(params.get("step", ""), (until - since) / _NS)
            return _json(matrix_answer(shelf, query, since, until, step_s))
        flags = request.headers.get("X-Loki-Response-Encoding-Flags", "")
        asked = Asked(
            since_ns=since,
            until_ns=until,
            limit=limit,
            is_forward=direction == "forward",
            is_categorized="categorize-labels" in flags,
        )
        return _json(streams_answer(shelf, query, asked))

    def _instant(self, shelf: Shelf, _: Request, params: Mapping[str, str]) -> Response:
        query = parse(params.get("query", ""))
        if isinstance(query, LogQuery):
            text = "log queries are not supported as an instant query type, please change your query to a range query"
            raise RefusedError(400, f"{text} type")
        return _json(vector_answer(shelf, query, _time(params.get("time", ""), self._now_ns())))

    def _labels(self, shelf: Shelf, _: Request, params: Mapping[str, str]) -> Response:
        names = {name for labels in shelf.names(*self._times(params)) for name, _ in labels}
        return _json(sorted(names))

    def _values(self, shelf: Shelf, request: Request, params: Mapping[str, str]) -> Response:
        wanted = request.path_params["name"]
        streams = shelf.names(*self._times(params))
        return _json(sorted({value for labels in streams for name, value in labels if name == wanted}))

    def _series(self, shelf: Shelf, _: Request, params: Mapping[str, str]) -> Response:
        query = parse(params.get("match[]", ""))
        if not isinstance(query, LogQuery):
            raise RefusedError(400, "only label matchers are supported")
        streams = [dict(labels) for labels in shelf.names(*self._times(params))]
        return _json([labels for labels in streams if query.selects(labels)])

    def _stats(self, _: Shelf, __: Request, params: Mapping[str, str]) -> Response:
        parse(params.get("query", ""))
        return Response(
            json.dumps({"streams": 0, "chunks": 0, "bytes": 0, "entries": 0}), media_type="application/json"
        )

    async def _buildinfo(self, _: Request) -> Response:
        return Response(json.dumps(_BUILD), media_type="application/json")

    async def _ready(self, _: Request) -> Response:
        return _text("ready\n", 200)

    async def _tail(self, _: Request) -> Response:
        return _text("Bad Request\n", 400)  # to who asks without a web socket; nobody here does otherwise

    async def _set_faults(self, request: Request) -> Response:
        self._faults.set(await request.json())
        return Response(status_code=204)

    async def _count(self, _: Request) -> Response:
        return Response(json.dumps({"asked": self._asked}), media_type="application/json")

    def _times(self, params: Mapping[str, str]) -> tuple[int, int]:
        now = self._now_ns()
        until = _time(params.get("end", ""), now)
        back_s = seconds_of(params["since"]) if params.get("since") else 3600
        return _time(params.get("start", ""), until - int(back_s * _NS)), until


def _time(text: str, otherwise: int) -> int:
    """Nanoseconds of a time in any of its forms. Raises RefusedError."""
    if not text:
        return otherwise
    if re.fullmatch(r"-?\d+", text):
        return int(text) * (_NS if len(text) <= _SECONDS_DIGITS else 1)
    try:
        if re.fullmatch(r"\d+\.\d+(?:e\+?\d+)?", text):
            return int(float(text) * _NS)
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise RefusedError(400, f"could not parse '{text}' as a timestamp") from error
    return int(at.astimezone(UTC).timestamp() * 1_000_000) * 1000


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise RefusedError(400, f'strconv.ParseUint: parsing "{text}": invalid syntax') from error


def _step(text: str, range_s: float) -> float:
    if not text:
        return max(range_s // 250, 1)
    return float(text) if re.fullmatch(r"[\d.]+", text) else seconds_of(text)


def _duration(length_ns: int) -> str:
    seconds = length_ns // _NS
    return f"{seconds // 3600}h{seconds % 3600 // 60}m{seconds % 60}s"


def _json(data: object) -> Response:
    body = json.dumps({"status": "success", "data": data}, ensure_ascii=False)
    return Response(body, headers={"Content-Type": "application/json; charset=UTF-8"})


def _text(text: str, status: int) -> Response:
    return PlainTextResponse(text, status_code=status)


async def _not_found(_: Request, __: Exception) -> Response:
    return _text("404 page not found\n", 404)
