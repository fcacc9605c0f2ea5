"""What may only be watched, who is at work in a job, and where its output lies."""

from __future__ import annotations

import pytest

from relance.controllers.slurm.kinds import arming, only_watched, release_number
from relance.controllers.slurm.logs import logs_of
from relance.controllers.slurm.presences import somebody_at_work
from relance.domain.stages import Stage
from relance.domain.views import Wish
from relance.slurm.records import SlurmStep
from tests.unit.slurm.recorded import job_with

NOTHING, ACT = Wish(), Wish(mode=Stage.ACT)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"is_batch": False}, "sbatch"),
        ({"requeue": False}, "Requeue=1"),
        ({"het_job_id": 10, "het_offset": 1}, "leader"),
        ({"is_batch": False, "is_external": True}, "slurm-bridge"),
        ({"is_expedited": True}, "--requeue=expedite"),
        ({"federation_origin": "east"}, "federation"),
        ({"states": ("RUNNING", "REVOKED")}, "federation"),
        ({"licenses": "matlab:1"}, "licences"),
        ({"array_job_id": 3, "array_task_id": 1}, "--comment"),
    ],
)
def test_each_kind_that_is_only_watched_says_why_and_what_helps(fields: dict[str, object], word: str) -> None:
    assert word in only_watched(job_with(**fields), NOTHING, "25.05.3")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"requeue": True, "is_batch": True},
        {"requeue": None, "is_batch": None},
    ],
)
def test_an_ordinary_job_may_be_restarted(fields: dict[str, object]) -> None:
    assert only_watched(job_with(**fields), NOTHING, "25.05.3") == ""


@pytest.mark.parametrize(
    ("release", "may"),
    [("24.11.7", True), ("25.05.0", False), ("25.11.6", False), ("25.11.7", True), ("26.05.0", True), ("odd", False)],
)
def test_licences_are_lost_by_some_releases_alone(release: str, *, may: bool) -> None:
    assert (only_watched(job_with(licenses="matlab:1"), NOTHING, release) == "") is may


def test_an_array_is_opted_in_by_its_own_comment() -> None:
    assert only_watched(job_with(array_job_id=3, array_task_id=1), ACT, "24.11.7") == ""


def test_a_job_that_may_not_be_requeued_is_armable_by_its_own_comment_or_its_site() -> None:
    fixed, asks = job_with(requeue=False), Wish(mode=Stage.ACT, arm_requeue=True)
    assert "comment" in arming(fixed, asks, site_allows=False)
    assert "JobRequeue=0" in arming(fixed, NOTHING, site_allows=True)
    assert arming(fixed, ACT, site_allows=False) == ""
    assert "arm_requeue" in only_watched(fixed, ACT, "22.05.8")
    assert only_watched(fixed, asks, "22.05.8", is_armable=True) == ""
    assert arming(job_with(requeue=True), asks, site_allows=True) == ""
    by_hand = job_with(requeue=False, is_batch=False)
    assert arming(by_hand, asks, site_allows=True) == ""
    assert "interactive" in only_watched(by_hand, asks, "22.05.8")


def test_a_release_is_compared_by_its_numbers() -> None:
    assert release_number("25.05.2-1") == (25, 5, 2)
    assert release_number("slurm") is None


def step(step_id: str, name: str, **fields: object) -> SlurmStep:
    plain: dict[str, object] = {"user": "ada", "started_at": 100, "nodes": ("gpu001", "gpu002")}
    return SlurmStep(job_id="12", step_id=step_id, name=name, **(plain | fields))  # type: ignore[arg-type]


TRAINING = step("0", "python")


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (step("interactive", "bash"), "interactive"),
        (step("1", "gdb"), "gdb"),
        (step("1", "/usr/bin/py-spy"), "py-spy"),
        (step("1", "bash", nodes=("gpu001",)), "shell"),
        (step("1", "python", user="root"), "root"),
        (step("1", "look.py", started_at=170, nodes=("gpu001",)), "beside"),
    ],
)
def test_a_step_of_a_person_is_told(other: SlurmStep, word: str) -> None:
    assert word in (somebody_at_work(job_with(), (step("batch", "batch"), TRAINING, other)) or "")


@pytest.mark.parametrize(
    "steps",
    [
        None,
        (),
        (step("batch", "batch"), step("extern", "extern")),
        (step("0", "bash"),),
        (TRAINING, step("1", "python", started_at=101)),
        (TRAINING, step("1", "exporter", started_at=105)),
        (TRAINING, step("1", "other", started_at=900, nodes=("gpu009",))),
        (TRAINING, step("TBD", "other", state="PENDING", started_at=None)),
    ],
)
def test_what_a_script_starts_tells_of_nobody(steps: tuple[SlurmStep, ...] | None) -> None:
    assert somebody_at_work(job_with(), steps) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "/home/ada/jupyter.sh"},
        {"name": "jupyter-lab"},
        {"command": "sleep 86400"},
        {"name": "sleep 1d"},
    ],
)
def test_a_notebook_and_a_sleeping_script_are_somebodys_place(fields: dict[str, object]) -> None:
    assert somebody_at_work(job_with(**fields), ())


def test_output_is_a_path_or_a_glob_and_what_cannot_be_resolved_is_said() -> None:
    job = job_with(stdout="logs/%x-%j.[out]", stderr=None)
    assert logs_of(job, Wish(logs=("ranks/*.log", "/data/%j-%t.log"))) == (
        ("/home/ada/run/logs/llm-12.[[]out]", "/home/ada/run/ranks/*.log", "/data/12-*.log"), (),
    )  # fmt: skip
    paths, notes = logs_of(job_with(stdout="%N.log", nodes=(), batch_host=None), NOTHING)
    assert paths == ()
    assert "%N" in notes[0]
    assert logs_of(job_with(stdout="/dev/null"), NOTHING)[0] == ()


def test_a_job_without_a_script_has_no_output_but_what_its_owner_names() -> None:
    assert logs_of(job_with(is_batch=False), NOTHING)[0] == ()
    assert logs_of(job_with(is_batch=False), Wish(logs=("a.log",)))[0] == ("/home/ada/run/a.log",)
