"""Everything around a restart fails: a seeded tenth of `python -m bench slurm_faults`; the whole belongs to the soak.

The private Slurms are these tests' alone, because their daemons are killed and stopped.
"""

from __future__ import annotations

import pytest

from bench.bars import slurm_faults
from bench.measures import Result
from tests.components.slurm import require_slurm


def shows(result: Result) -> str:
    """What a failure is to tell."""
    return "\n".join([*result.wrong, str(result.figures)])


@pytest.mark.timeout(900)
def test_whatever_fails_around_a_restart_the_job_runs_once_and_all_of_it_is_told() -> None:
    require_slurm()
    result = slurm_faults.measure(quick=True)
    assert result.is_held, shows(result)
    # A point that does not come proves nothing; on a slow machine one may be missed.
    assert len(result.figures["points that did not come"]) <= 1, shows(result)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_every_process_wire_and_database_fails_at_every_point() -> None:
    require_slurm()
    result = slurm_faults.measure(quick=False)
    assert result.is_held, shows(result)


def test_a_tenth_has_each_kind_of_trouble_and_is_the_same_each_time() -> None:
    cases = slurm_faults.tenth()
    assert cases == slurm_faults.tenth()
    assert len(cases) == pytest.approx(len(slurm_faults.all_cases()) / 10, abs=1)
    assert sorted(case.name for number in range(10) for case in slurm_faults.tenth(number)) == sorted(
        case.name for case in slurm_faults.all_cases()
    )
