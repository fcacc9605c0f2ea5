"""What policy is told of the cluster when a look does not show the job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.records import ClusterRecord
from relance.domain.views import ClusterReport, SchedulerFacts
from relance.recovery.sites import ClusterRules
from relance.recovery.situations import Situation, fleet_view
from tests.unit.recovery.situations import FAILED, RUNNING, at, seen, with_incident

WHOLE = ClusterReport(
    cluster="alpha", session="s", sequence=1, as_of=at(120), facts=SchedulerFacts(release="x"), jobs=(), nodes=()
)
RECORD = with_incident(seen(RUNNING))


def situation(report: ClusterReport | None) -> Situation:
    return Situation(
        record=RECORD,
        findings={},
        progress={},
        report=report,
        cluster=ClusterRecord(cluster="alpha"),
        nodes=(),
        fleet=(),
        coverage=(),
        watched=True,
        read_to_end=False,
        permit_free_at=None,
        storm=None,
        rules=ClusterRules(cluster="alpha"),
        now=at(121),
    )


@pytest.mark.parametrize(
    ("report", "is_known"),
    [
        pytest.param(WHOLE, True, id="a whole look that does not show the job: it is gone"),
        pytest.param(replace(WHOLE, complete=False), False, id="a look at a part of the jobs"),
        pytest.param(replace(WHOLE, as_of=at(80)), False, id="a look from before the incident"),
        pytest.param(replace(WHOLE, complete=False, jobs=(FAILED,)), True, id="a part that shows the job"),
        pytest.param(None, False, id="no look"),
    ],
)
def test_a_job_is_gone_only_by_a_whole_look_since_the_incident(report: ClusterReport | None, *, is_known: bool) -> None:
    view = fleet_view(situation(report), RECORD.incidents[-1])
    assert (view.as_of is not None) is is_known
