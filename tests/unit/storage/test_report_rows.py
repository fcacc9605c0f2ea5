"""The row of a look: unchanged jobs are not encoded again, and what is read back is what was written."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

from relance.domain.encoding import decode
from relance.domain.views import ClusterReport, JobState, SchedulerFacts
from relance.storage.reports import Reports
from tests.unit.recovery.situations import RUNNING, at

LOOK = ClusterReport(
    cluster="alpha",
    session="one",
    sequence=1,
    as_of=at(10),
    facts=SchedulerFacts(release="25.11"),
    jobs=(RUNNING, replace(RUNNING, raw_id="18")),
    nodes=(),
)


def _read_back(reports: Reports, report: ClusterReport) -> ClusterReport:
    stored: ClusterReport = decode(ClusterReport, json.loads(zlib.decompress(reports.row(report, at(11))["report"])))
    return stored


def test_each_look_is_read_back_as_it_was_whatever_changed_since_the_one_before() -> None:
    reports = Reports()
    first, second = LOOK.jobs
    changed = replace(second, state=JobState.FAILED, exit_code=1)
    looks = (
        LOOK,
        replace(LOOK, sequence=2),
        replace(LOOK, sequence=3, jobs=(first, changed)),
        replace(LOOK, sequence=4, jobs=(changed,), problems=("x",)),
        replace(LOOK, sequence=5, jobs=()),
        replace(LOOK, cluster="beta", jobs=(second,)),
    )
    assert [_read_back(reports, look) for look in looks] == list(looks)
