"""What is announced before it happens: training goes on until then, and it counts all the same."""

from __future__ import annotations

import pytest

from relance.attribution import attribute
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Scope
from tests.unit.attribution.cases import case, hit, key_error, trained_until


@pytest.mark.parametrize("ahead_s", [2, 120, 800])
def test_a_machine_that_was_reclaimed_as_announced_is_no_fault_though_steps_followed(ahead_s: float) -> None:
    notice = hit(
        "spot_reclaimed",
        10,
        domain=FaultDomain.SCHEDULER,
        restart=RestartHint.SCHEDULER,
        scope=Scope.SCHEDULER,
        file="cloud.log",
    )
    verdict = attribute(case(notice, key_error(10 + ahead_s + 1), progress=trained_until(10 + ahead_s)))
    assert (verdict.domain, verdict.cause, verdict.remedy) == (FaultDomain.SCHEDULER, "spot_reclaimed", Remedy.NONE)


def test_a_notice_that_nothing_came_of_explains_no_later_fault() -> None:
    notice = hit("spot_reclaimed", 10, domain=FaultDomain.SCHEDULER, restart=RestartHint.SCHEDULER, file="cloud.log")
    verdict = attribute(case(notice, key_error(2000), progress=trained_until(1990)))
    assert verdict.cause == "python_exception"


def test_a_notice_alone_is_no_reason_to_act_on_a_job_that_trains_on() -> None:
    notice = hit("spot_reclaimed", 10, domain=FaultDomain.SCHEDULER, restart=RestartHint.OK, file="job.log")
    verdict = attribute(case(notice, job=None, progress=trained_until(200)))
    assert (verdict.domain, verdict.remedy) == (FaultDomain.NONE, Remedy.NONE)
