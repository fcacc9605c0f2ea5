"""`LokiStore`: Loki over its HTTP API, as a log store."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from urllib.parse import quote

from relance.sources.exchanges import Exchange, StoreRefusedError, StoreTooMuchError
from relance.sources.loki.answers import entries_of, strings_of
from relance.sources.loki.queries import halves, query_of
from relance.sources.stores.backs import Entry, Page, Selection, within

_RANGE_NS: Final = 30 * 24 * 3600 * 10**9
"""Loki's default limit is an hour more (30d1h)."""
_RANGE_LEAST_NS: Final = 60 * 10**9
_ENTRIES: Final = 5000
_PARTS_AT_MOST: Final = 200
"""So many questions about one nanosecond; whoever has more lines in it has a clock that stands still."""
_WHOLE_LABELS: Final = {"X-Loki-Response-Encoding-Flags": "categorize-labels"}
"""Without it what Loki knows of single lines is among the labels, and parts streams."""
_LIMIT_OF_ENTRIES: Final = re.compile(r"max_entries_limit\w* \(\d+ > (\d+)\)")
_LIMIT_OF_RANGE: Final = re.compile(r"query time range exceeds the limit")
_LIMITS: Final = re.compile(r"HTTP 4\d\d: .*(?:too (?:long|many|large|big)|exceed|limit)", re.DOTALL)


class LokiStore:
    """Implements `relance.sources.stores.backs.LogStore` over Loki's HTTP API (version 2.9 or newer).

    What a Loki allows in one query is learned from what it refuses.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._range_ns = _RANGE_NS
        self._entries = _ENTRIES

    @property
    def told_at(self) -> datetime | None:
        """Its own time when it answered last."""
        return self._exchange.told_at

    async def page(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> Page:
        """The oldest entries of a time. Raises StoreError."""
        query, since = query_of(wanted), since_ns
        while since < until_ns:
            until = min(until_ns, since + self._range_ns)
            answer = await self._ask(query, (since, until), at_most)
            if answer is None:
                continue
            entries, is_full = answer
            if not is_full:
                if entries or until >= until_ns:
                    return Page(entries=tuple(entries), is_whole=until >= until_ns, up_to_ns=until)
                since = until
                continue
            last = entries[-1].at_ns
            if last == since:
                entries, last = await self._all_at(query, last, at_most), last + 1
            return Page(entries=tuple(entries), is_whole=False, up_to_ns=last)
        return Page(entries=(), is_whole=True)

    async def newest(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> tuple[Entry, ...]:
        """The newest entries of a time. Raises StoreError."""
        query, until = query_of(wanted), until_ns
        while until > since_ns:
            since = max(since_ns, until - self._range_ns)
            answer = await self._ask(query, (since, until), at_most, direction="backward")
            if answer is None:
                continue
            if answer[0]:
                return tuple(answer[0])
            until = since
        return ()

    async def label_names(self, since_ns: int) -> frozenset[str]:
        """The names of labels since a time. Raises StoreError."""
        return frozenset(strings_of(await self._get("/loki/api/v1/labels", since_ns)))

    async def label_values(self, name: str, since_ns: int, at_most: int) -> tuple[str, ...]:
        """Values of a label since a time. Raises StoreError."""
        found = strings_of(await self._get(f"/loki/api/v1/label/{quote(name, safe='')}/values", since_ns))
        return found[:at_most]

    async def version(self) -> str:
        """Loki's version, where it tells one. Raises StoreError."""
        document = self._exchange.document(await self._exchange.get("/loki/api/v1/status/buildinfo"))
        version = document.get("version") if isinstance(document, dict) else None
        return f"Loki {version}" if version else "Loki of an untold version"

    async def close(self) -> None:
        """Give the connections back."""
        await self._exchange.close()

    async def _ask(
        self, query: str, times: tuple[int, int], at_most: int, direction: str = "forward"
    ) -> tuple[list[Entry], bool] | None:
        """Entries, and whether there may be more of them; None where a shorter time has to be asked for.

        Raises StoreError.
        """
        while True:
            limit = max(min(at_most, self._entries), 1)
            form = {
                "query": query,
                "start": str(times[0]),
                "end": str(times[1]),
                "direction": direction,
                "limit": str(limit),
            }
            try:
                body = await self._exchange.post("/loki/api/v1/query_range", form, _WHOLE_LABELS)
            except StoreRefusedError as error:
                if _LIMIT_OF_RANGE.search(str(error)) and times[1] - times[0] > _RANGE_LEAST_NS:
                    self._range_ns = max(min(self._range_ns, times[1] - times[0]) // 2, _RANGE_LEAST_NS)
                    return None
                found = _LIMIT_OF_ENTRIES.search(str(error))
                if found is not None and 0 < int(found[1]) < limit:
                    self._entries = int(found[1])
                    continue
                if _LIMITS.search(str(error)) and not isinstance(error, StoreTooMuchError):
                    raise StoreTooMuchError(str(error), error.remedy) from error
                raise
            entries = entries_of(self._exchange.document(body))
            is_full = len(entries) >= limit
            return within(entries, *times, is_full=is_full), is_full

    async def _all_at(self, query: str, at_ns: int, at_most: int) -> list[Entry]:
        """All entries of one time, of which there are more than one answer has. Raises StoreError.

        They can be asked for in parts by how their lines begin alone. Where many streams have the very same line, and
        more of them than one answer has, the rest stays away; and so does what is beyond a number of parts.
        """
        found: list[Entry] = []
        filters = [""]
        for _ in range(_PARTS_AT_MOST):
            if not filters:
                break
            part = filters.pop()
            answer = await self._ask(query + part, (at_ns, at_ns + 1), at_most)
            entries, is_full = answer or ([], False)
            parts = halves([entry.line.decode("utf-8", "replace") for entry in entries]) if is_full else None
            if parts is None:
                found += entries
            else:
                filters += [part + half for half in parts]
        return found

    async def _get(self, path: str, since_ns: int) -> object:
        """A list of names of a time. Raises StoreError."""
        times = {"start": str(since_ns), "end": str(since_ns + _RANGE_NS)}
        document: object = self._exchange.document(await self._exchange.get(path, times))
        return document
