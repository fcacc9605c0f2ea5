"""The newest whole look at each cluster: a current state, not history."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select

from relance.domain.encoding import decode, encode
from relance.domain.views import ClusterReport, JobView
from relance.storage.columns import column_key, to_payload, to_us
from relance.storage.tables import reports
from relance.storage.upserts import put

LEVEL: Final = 1
"""A look at 10,000 jobs is some 10 MB of very repetitive text, written every few seconds: quick before small."""

_WHICH: Final = select(reports.c.session, reports.c.sequence).where(reports.c.cluster_key == bindparam("cluster"))
_REPORT: Final = select(reports.c.session, reports.c.sequence, reports.c.report).where(
    reports.c.cluster_key == bindparam("cluster")
)


def put_report(connection: Connection, row: Mapping[str, Any]) -> bool:
    """Store a row, unless a report of the same session that is as new is there; whether it was stored."""
    present = connection.execute(_WHICH.with_for_update(), {"cluster": row["cluster_key"]}).one_or_none()
    if present is not None and present.session == row["session"] and present.sequence >= row["sequence"]:
        return False
    put(connection, reports, row)
    return True


class Reports:
    """Reads and writes reports; remembers of each cluster the last one, and the text of each of its jobs.

    Most jobs of a long queue are the very same from look to look: they are neither encoded nor decoded again.
    """

    def __init__(self) -> None:
        self._last: dict[str, ClusterReport] = {}
        self._texts: dict[str, dict[str, tuple[JobView, str]]] = {}
        self._lock = threading.Lock()

    def row(self, report: ClusterReport, now: datetime) -> dict[str, Any]:
        """The row of a report. It takes time for a large cluster, so it is made before the transaction."""
        return {
            "cluster_key": column_key(report.cluster),
            "session": to_payload(report.session),
            "sequence": report.sequence,
            "stored_at_us": to_us(now),
            "report": zlib.compress(self._text(report).encode(), LEVEL),
        }

    def _text(self, report: ClusterReport) -> str:
        known = self._texts.get(report.cluster, {})
        texts: dict[str, tuple[JobView, str]] = {}
        for view in report.jobs:
            kept = known.get(view.raw_id)
            texts[view.raw_id] = kept if kept is not None and kept[0] is view else (view, _json(encode(view)))
        self._texts[report.cluster] = texts
        rest = encode(replace(report, jobs=()))
        del rest["jobs"]
        # Two jobs of one raw id cannot be in one look, but nothing is lost if they are.
        jobs = (kept[1] if (kept := texts[view.raw_id])[0] is view else _json(encode(view)) for view in report.jobs)
        return f'{_json(rest)[:-1]},"jobs":[{",".join(jobs)}]}}'

    def newest(self, connection: Connection, cluster: str) -> ClusterReport | None:
        """The newest report of a cluster."""
        key = {"cluster": column_key(cluster)}
        which = connection.execute(_WHICH, key).one_or_none()
        if which is None:
            return None
        with self._lock:
            last = self._last.get(cluster)
        if last is not None and (to_payload(last.session), last.sequence) == (which.session, which.sequence):
            return last
        stored = connection.execute(_REPORT, key).one_or_none()
        return None if stored is None else self._decoded(stored.report)

    def remember(self, report: ClusterReport) -> None:
        """Note a report that is the newest of its cluster."""
        with self._lock:
            self._last[report.cluster] = report

    def _decoded(self, stored: bytes) -> ClusterReport:
        report: ClusterReport = decode(ClusterReport, json.loads(zlib.decompress(stored)))
        self.remember(report)
        return report


def _json(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))
