"""A site said that the other engine is off, and it is not: two engines on one job are noticed all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.domain.views import Wish
from relance.domain.wishes import parse_wish
from relance.recovery.intake import job_events
from tests.unit.recovery.situations import AGAIN, RUNNING, at, folded

ASKED = parse_wish('{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 8}}', Limits(), ("aps",))
OURS = parse_wish("relance:act,restarts=8", Limits())


@pytest.mark.parametrize("wish", [ASKED, OURS], ids=["the other form", "ours"])
def test_a_second_restart_that_nobody_explains_puts_the_job_at_observe(wish: Wish) -> None:
    assert ASKED.mode is Stage.ACT
    first, second = replace(RUNNING, wish=wish), replace(AGAIN, wish=wish)
    third = replace(second, restart_count=2, submitted_at=at(201), started_at=at(205))
    record = folded(job_events(folded(()), first, (), None, at(2)))
    once = job_events(record, second, (), None, at(106))
    assert not any(isinstance(event, e.JobSwitched) for event in once), "once may be a person's hand"
    record = folded(once, record)
    (switched,) = [
        event for event in job_events(record, third, (), None, at(206)) if isinstance(event, e.JobSwitched)
    ]  # fmt: skip
    assert (switched.stage, switched.by) == (Stage.OBSERVE, "relance")
    assert "another engine" in switched.reason
