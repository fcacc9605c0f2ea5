from __future__ import annotations

import pytest

from relance.slurm.log_names import is_fit, name_for
from tests.unit.slurm.recorded import job_with


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"stdout": "/logs/run-%j.out"}, "/logs/run-%j.out.r2"),
        ({"stdout": "/logs/run-%j.out.r1"}, "/logs/run-%j.out.r2"),
        ({"stdout": "run.out"}, "/home/ada/run/run.out.r2"),
        ({}, "/home/ada/run/slurm-%j.out.r2"),
        ({"array_job_id": 3, "array_task_id": 7}, "/home/ada/run/slurm-%A_%a.out.r2"),
        ({"stdout": "/logs/run-12.out", "has_expanded_paths": True}, "/logs/run-12.out.r2"),
    ],
)
def test_an_attempt_has_the_jobs_own_name_with_its_number_behind_it(fields: dict[str, object], name: str) -> None:
    assert name_for(job_with(**fields), 2) == name


@pytest.mark.parametrize(
    "fields",
    [
        {"stdout": "/dev/null"},
        {"stdout": "/logs/my run.out"},
        {"stdout": "/logs/run\n.out"},
        {"stdout": r"/logs/run\%j.out"},
        {"stdout": "/logs/100%.out", "has_expanded_paths": True},
        {"stdout": "/" + "x" * 1100},
        {"stdout": "run.out", "work_dir": None},
        {"is_batch": False},
        {"array_job_id": 3, "array_tasks": "0-3"},
    ],
)
def test_a_name_that_is_not_fit_for_a_command_stays_as_it_is(fields: dict[str, object]) -> None:
    assert name_for(job_with(**fields), 1) is None


def test_the_first_attempt_has_the_jobs_own_name() -> None:
    assert name_for(job_with(stdout="/logs/run.out"), 0) is None


def test_only_an_absolute_path_of_plain_signs_enters_a_command() -> None:
    assert is_fit("/a/b-%j_%x.out.r1")
    assert not any(
        is_fit(path) for path in ("", "/", "a", "/a/", "/a b", "/a\n", "/a;b", "/a'b", "/a$b", "/a\0b", "/ä")
    )
