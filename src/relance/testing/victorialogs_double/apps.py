"""The double's paths."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from relance.testing.loki_double.faults import Faults
from relance.testing.victorialogs_double.pipes import Query, parsed
from relance.testing.victorialogs_double.shelves import (
    Kept,
    Shelf,
    in_time,
    insert_lines,
    ns_of,
    range_of,
    seconds_of,
    time_text,
)
from relance.testing.victorialogs_double.tokens import QueryError

_NS = 1_000_000_000
_FORM = "application/x-www-form-urlencoded"
_METRICS = 'vm_app_version{version="victoria-logs-double", short_version="v0.0.0"} 1\n'

Params = Mapping[str, str]


class VictoriaLogsDouble:
    """A VictoriaLogs.

    Args:
        now_ns: The time.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._shelves: dict[tuple[int, int], Shelf] = {}
        self._faults = Faults()
        self._asked = 0

    def app(self) -> Starlette:
        """The application."""
        select = {
            "query": self._query,
            "hits": self._hits,
            "stats_query": self._stats,
            "stats_query_range": self._stats_range,
            "streams": self._streams,
            "field_names": self._field_names,
            "stream_field_names": self._stream_names,
            "stream_field_values": self._stream_values,
        }
        return Starlette(
            routes=[
                *(
                    Route(f"/select/logsql/{name}", self._guarded(handle), methods=["GET", "POST"])
                    for name, handle in select.items()
                ),
                Route("/insert/jsonline", self._insert, methods=["POST"]),
                Route("/insert/loki/api/v1/push", self._push, methods=["POST"]),
                Route("/health", _health),
                Route("/metrics", _metrics),
                Route("/double/faults", self._set_faults, methods=["POST"]),
                Route("/double/asked", self._count),
            ],
            exception_handlers={404: _unsupported},
        )

    def _guarded(self, handle: Callable[[Shelf, Params], Response]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            self._asked += 1
            struck = await self._faults.strike(request.url.path)
            if struck is not None:
                return struck
            params = dict(request.query_params)
            if request.headers.get("Content-Type", "").startswith(_FORM):
                params |= {name: str(value) for name, value in (await request.form(max_part_size=2**24)).items()}
            try:
                return handle(self._shelf(request), params)
            except (QueryError, ValueError) as error:
                return PlainTextResponse(f"{str(error).rstrip()}\n", status_code=400)

        return answer

    def _shelf(self, request: Request) -> Shelf:
        tenant = int(request.headers.get("AccountID") or 0), int(request.headers.get("ProjectID") or 0)
        return self._shelves.setdefault(tenant, Shelf(tenant))

    async def _insert(self, request: Request) -> Response:
        insert_lines(self._shelf(request), await request.body(), request.query_params, self._now_ns())
        return Response(media_type="application/json")

    async def _push(self, request: Request) -> Response:
        shelf = self._shelf(request)
        for stream in (await request.json())["streams"]:
            for at, line, *_ in stream["values"]:
                shelf.put(int(at), stream["stream"], {**stream["stream"], "_msg": line})
        return Response(status_code=204)

    def _selected(self, shelf: Shelf, params: Params) -> tuple[Query, list[Kept]]:
        labels = {row.fields["_stream"]: row.labels for row in shelf.rows}
        query = parsed(params.get("query", ""), labels)
        return query, in_time(shelf.rows, *range_of(params, self._now_ns()))

    def _query(self, shelf: Shelf, params: Params) -> Response:
        query, kept = self._selected(shelf, params)
        rows = query.rows(kept)
        if (limit := int(params.get("limit") or 0)) and not query.is_sorted:
            rows = sorted(rows, key=lambda row: ns_of(row.get("_time", ""), 0) or 0)[-limit:]
        elif limit:
            rows = rows[:limit]
        body = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
        return Response(body, headers={"Content-Type": "application/stream+json"})

    def _hits(self, shelf: Shelf, params: Params) -> Response:
        query, kept = self._selected(shelf, params)
        step, field = int(_seconds(params.get("step") or "1d") * _NS), params.get("field", "")
        groups: dict[str, Counter[int]] = {}
        for row in kept:
            if query.where(row.fields):
                value = row.fields.get(field, "") if field else ""
                groups.setdefault(value, Counter())[row.at_ns // step * step] += 1
        hits = [
            {
                "fields": {field: value} if field else {},
                "timestamps": [time_text(at) for at in sorted(counts)],
                "values": [counts[at] for at in sorted(counts)],
                "total": sum(counts.values()),
            }
            for value, counts in sorted(groups.items())
        ]
        return _json({"hits": hits})

    def _stats(self, shelf: Shelf, params: Params) -> Response:
        at_ns = ns_of(params.get("time", ""), self._now_ns()) or self._now_ns()
        query, _ = self._selected(shelf, params)
        rows = query.rows(in_time(shelf.rows, 0, at_ns))
        result = [
            {"metric": _metric(query, row, name), "value": [at_ns // _NS, row[name]]}
            for row in rows
            for name in query.stats
        ]
        return _json({"status": "success", "data": {"resultType": "vector", "result": result}})

    def _stats_range(self, shelf: Shelf, params: Params) -> Response:
        query, kept = self._selected(shelf, params)
        step = int(_seconds(params.get("step") or "1d") * _NS)
        series: dict[str, dict[str, Any]] = {}
        for begin in sorted({row.at_ns // step * step for row in kept}):
            for row in query.rows(in_time(kept, begin, begin + step - 1)):
                for name in query.stats:
                    metric = _metric(query, row, name)
                    found = series.setdefault(json.dumps(metric), {"metric": metric, "values": []})
                    found["values"].append([begin // _NS, row[name]])
        return _json({"status": "success", "data": {"resultType": "matrix", "result": list(series.values())}})

    def _streams(self, shelf: Shelf, params: Params) -> Response:
        query, kept = self._selected(shelf, params)
        return _values(Counter(sorted(row["_stream"] for row in query.rows(kept))), params)

    def _field_names(self, shelf: Shelf, params: Params) -> Response:
        query, kept = self._selected(shelf, params)
        counts = Counter(name for row in query.rows(kept) for name in row)
        return _values(Counter(dict(sorted(counts.items()))), params, by_count=False)

    def _stream_names(self, shelf: Shelf, params: Params) -> Response:
        query, kept = self._selected(shelf, params)
        return _values(Counter(name for row in kept if query.where(row.fields) for name in row.labels), params)

    def _stream_values(self, shelf: Shelf, params: Params) -> Response:
        query, kept = self._selected(shelf, params)
        name = params.get("field", "")
        if not name:
            raise ValueError("missing `field` query arg")
        found = (row.labels[name] for row in kept if query.where(row.fields) and name in row.labels)
        return _values(Counter(sorted(found)), params)

    async def _set_faults(self, request: Request) -> Response:
        self._faults.set(await request.json())
        return Response(status_code=204)

    async def _count(self, _: Request) -> Response:
        return _json({"asked": self._asked})


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w|y)?", text)
    if found is None:
        message = f"cannot parse duration {text!r}"
        raise ValueError(message)
    return float(found[1]) * seconds_of(found[2] or "s")


def _metric(query: Query, row: Mapping[str, str], name: str) -> dict[str, str]:
    return {"__name__": name, **{by: row[by] for by in query.by}}


def _values(counts: Counter[str], params: Params, *, by_count: bool = True) -> Response:
    limit = int(params.get("limit") or 0)
    pairs = counts.most_common() if by_count else list(counts.items())
    return _json({"values": [{"value": value, "hits": hits} for value, hits in pairs[: limit or None]]})


def _json(data: object) -> Response:
    return Response(json.dumps(data, ensure_ascii=False), headers={"Content-Type": "application/json"})


async def _health(_: Request) -> Response:
    return PlainTextResponse("OK")


async def _metrics(_: Request) -> Response:
    return PlainTextResponse(_METRICS)


async def _unsupported(request: Request, _: Exception) -> Response:
    return PlainTextResponse(f'unsupported path requested: "{request.url.path}"\n', status_code=400)
