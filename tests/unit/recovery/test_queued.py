from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.views import JobView
from relance.recovery.queued import queued
from tests.unit.recovery.situations import REQUEUED, at

NOW = at(200)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (replace(REQUEUED, reason="QOSMaxJobsPerUserLimit"), "waits for a limit of its QOS (QOSMaxJobsPerUserLimit)"),
        (replace(REQUEUED, reason="AssocGrpGRES"), "waits for a limit of its account (AssocGrpGRES)"),
        (replace(REQUEUED, reason="Licenses"), "waits for a licence that is not free (Licenses)"),
        (
            replace(REQUEUED, reason="BeginTime", eligible_at=at(300)),
            "waits for its start time (BeginTime), 11:05:00 UTC",
        ),
        (
            replace(REQUEUED, reason="Resources", expected_at=at(600)),
            "waits for nodes that are busy (Resources); the scheduler plans to start it at 11:10:00 UTC",
        ),
        (replace(REQUEUED, reason="Priority", expected_at=at(100)), "waits for jobs that come before it (Priority)"),
        (replace(REQUEUED, reason="SomethingNew"), "waits in the queue (SomethingNew)"),
        (replace(REQUEUED, reason=""), "waits in the queue (no reason given)"),
    ],
)
def test_waiting_is_said_in_plain_words_with_the_schedulers_own(view: JobView, words: str) -> None:
    assert queued(view, NOW) == words


def test_a_plan_that_changes_makes_no_other_view() -> None:
    assert replace(REQUEUED, expected_at=at(600)) == REQUEUED
