"""`VictoriaLogsStore`: VictoriaLogs over its HTTP API, as a log store."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from relance.sources.exchanges import Exchange, StoreError, StoreRefusedError, StoreTooMuchError
from relance.sources.stores.backs import Entry, Page, Selection, within
from relance.sources.victorialogs import queries
from relance.sources.victorialogs.answers import entries_of, values_of

_QUERY: Final = "/select/logsql/query"
_LIMITS: Final = re.compile(
    r"too (?:long|many|large|big)|exceed|requires more than|-search\.max|cannot be (?:bigger|larger)"
)
_VERSION: Final = re.compile(rb'vm_app_version\{[^}\n]*\bversion="([^"\n]{1,120})"')
_LOOKED_BACK: Final = "5m"
_SPAN_NS: Final = 15 * 60 * 10**9
_SPAN_LEAST_NS: Final = 10**9
_SPAN_MOST_NS: Final = 30 * 24 * 3600 * 10**9
_SPAN_GROWTH: Final = 4


class VictoriaLogsStore:
    """Implements `relance.sources.stores.backs.LogStore` over VictoriaLogs' HTTP API (version 1.0 or newer).

    Times are given in nanoseconds: of a time in whole seconds the whole second counts. Whether the end of a time counts
    differs between versions, so entries at it are dropped here. Lines that came twice are given twice.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._span_ns = _SPAN_NS

    @property
    def told_at(self) -> datetime | None:
        """Its own time when it answered last, or that of who stands before it."""
        return self._exchange.told_at

    async def page(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> Page:
        """The oldest entries of a time. Raises StoreError.

        For each page VictoriaLogs goes through all of the time that is asked for, so that is about as long as the last
        page was.
        """
        query, limit, since = queries.query_of(wanted), max(at_most, 1), since_ns
        while since < until_ns:
            until = min(until_ns, since + self._span_ns)
            found = await self._ask(queries.oldest(query, limit), since, until)
            entries = tuple(within(found, since, until, is_full=len(found) >= limit))
            if len(found) >= limit and found[-1].at_ns < until:
                last = found[-1].at_ns
                self._span_ns = max(last - since, _SPAN_LEAST_NS)
                if last == since:
                    entries, last = await self._all_at(query, since), since + 1
                return Page(entries=entries, is_whole=False, up_to_ns=last)
            if 2 * len(found) < limit:
                self._span_ns = min(self._span_ns * _SPAN_GROWTH, _SPAN_MOST_NS)
            if entries or until >= until_ns:
                return Page(entries=entries, is_whole=until >= until_ns, up_to_ns=until)
            since = until
        return Page(entries=(), is_whole=True)

    async def newest(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> tuple[Entry, ...]:
        """The newest entries of a time. Raises StoreError."""
        query = queries.newest(queries.query_of(wanted), max(at_most, 1))
        found = await self._ask(query, since_ns, until_ns - 1)
        return tuple(entry for entry in found if since_ns <= entry.at_ns < until_ns)

    async def label_names(self, since_ns: int) -> frozenset[str]:
        """The names of stream fields since a time. Raises StoreError."""
        return frozenset(await self._values("stream_field_names", {"start": str(since_ns)}))

    async def label_values(self, name: str, since_ns: int, at_most: int) -> tuple[str, ...]:
        """Values of a stream field since a time. Raises StoreError."""
        form = {"start": str(since_ns), "field": name, "limit": str(at_most)}
        return (await self._values("stream_field_values", form))[:at_most]

    async def version(self) -> str:
        """VictoriaLogs' version, where it tells one. Raises StoreError."""
        await self._values("stream_field_names", {"start": _LOOKED_BACK})
        try:
            found = _VERSION.search(await self._exchange.get("/metrics"))
        except StoreError:
            found = None  # who may ask for logs may not always ask for this
        return f"VictoriaLogs {found[1].decode('utf-8', 'replace')}" if found else "VictoriaLogs of an untold version"

    async def close(self) -> None:
        """Give the connections back."""
        await self._exchange.close()

    async def _all_at(self, query: str, at_ns: int) -> tuple[Entry, ...]:
        """All entries of one time, however many. Raises StoreError."""
        found = await self._ask(queries.all_of(query), at_ns, at_ns + 1)
        return tuple(entry for entry in found if entry.at_ns == at_ns)

    async def _ask(self, query: str, since_ns: int, until_ns: int) -> list[Entry]:
        """Entries by rising time; those of one time in the order in which they came. Raises StoreError."""
        form = {"query": query, "start": str(since_ns), "end": str(until_ns)}
        entries = entries_of(await self._post(_QUERY, form, empty_as="json"))
        entries.sort(key=lambda entry: entry.at_ns)
        return entries

    async def _values(self, path: str, form: dict[str, str]) -> tuple[str, ...]:
        body = await self._post(f"/select/logsql/{path}", {"query": "*", **form})
        return values_of(self._exchange.document(body))

    async def _post(self, path: str, form: dict[str, str], empty_as: str = "") -> bytes:
        try:
            return await self._exchange.post(path, form, empty_as=empty_as)
        except StoreTooMuchError:
            raise
        except StoreRefusedError as error:
            if _LIMITS.search(str(error)):
                raise StoreTooMuchError(str(error), error.remedy) from error
            raise
