from __future__ import annotations

import pytest

from relance.slurm.log_paths import LogPath, batch_errors, batch_output, step_output
from relance.slurm.parsing.jobs import parse_jobs
from tests.unit.slurm.recorded import RELEASES, job_with, recorded

SEEN_ON_22_05 = [
    ("J-%J", "J-12"),
    ("J-%6J", "J-000012"),
    ("N-%N", "N-gpu001"),
    ("n-%n", "n-0"),
    ("s-%s", "s-batch"),
    ("t-%t", "t-0"),
    ("t-%3t", "t-000"),
    ("a-%a", "a-4294967294"),
    ("A-%A", "A-12"),
    ("u-%u", "u-ada"),
    ("x-%x", "x-my job"),
    ("x-%8x", "x-my job"),
    ("j-%4j", "j-0012"),
    ("j-%12j", "j-0000000012"),
    ("p-%%j", "p-%j"),
    ("q-%q-%j", "q-%q-12"),
    ("h-%h", "h-%h"),
    ("end-%", "end-%"),
    ("N-%4N", "N-gpu001"),
    (r"bs-\%j", "bs-%j"),
    (r"\bs2-%j", "bs2-%j"),
    (r"\\dd-%j", r"\dd-%j"),
    ("sp ace-%j", "sp ace-12"),
    ("sub/%j", "sub/12"),
]


@pytest.mark.parametrize(("pattern", "name"), SEEN_ON_22_05)
def test_a_batch_pattern_becomes_the_file_that_slurm_wrote(pattern: str, name: str) -> None:
    assert batch_output(job_with(name="my job", stdout=pattern)) == LogPath(path=f"/home/ada/run/{name}")


def test_a_job_that_names_no_output_writes_to_slurms_default() -> None:
    assert batch_output(job_with()).path == "/home/ada/run/slurm-12.out"


def test_an_array_task_that_names_no_output_writes_to_a_file_of_its_own() -> None:
    assert batch_output(job_with(array_job_id=3, array_task_id=7)).path == "/home/ada/run/slurm-3_7.out"


def test_an_array_task_is_padded() -> None:
    job = job_with(array_job_id=3, array_task_id=7, stdout="/logs/%A_%4a.log")
    assert batch_output(job).path == "/logs/3_0007.log"


def test_the_tasks_that_wait_have_no_output_yet() -> None:
    found = batch_output(job_with(array_job_id=3, array_tasks="0-3", stdout="/logs/%A_%a.log"))
    assert found.path is None
    assert found.problem == "Cannot resolve '/logs/%A_%a.log': the scheduler does not show what %a stands for."


def test_a_pattern_that_releases_know_differently_becomes_a_glob_that_fits_each() -> None:
    job = job_with(array_job_id=3, array_task_id=7, stdout="/logs/[x]%b.log")
    assert batch_output(job) == LogPath(path="/logs/[[]x]*.log", is_glob=True)


def test_what_a_release_has_expanded_is_not_expanded_again() -> None:
    assert batch_output(job_with(stdout="/logs/100%j", has_expanded_paths=True)).path == "/logs/100%j"


def test_errors_go_with_the_output_unless_the_job_says_otherwise() -> None:
    assert batch_errors(job_with(stdout="o-%j")).path == "/home/ada/run/o-12"
    assert batch_errors(job_with(stdout="o-%j", stderr="e-%j")).path == "/home/ada/run/e-12"


def test_output_that_is_thrown_away_is_said() -> None:
    assert batch_output(job_with(stdout="/dev/null")).problem == "The output is thrown away (/dev/null)."


def test_a_job_without_a_script_has_no_file() -> None:
    assert batch_output(job_with(is_batch=False)).path is None


def test_a_job_that_has_no_host_yet_has_no_path_with_its_name() -> None:
    job = job_with(nodes=(), batch_host=None, stdout="%N.log")
    assert "what %N stands for" in (batch_output(job).problem or "")


def test_a_name_is_only_relative_to_a_work_directory_that_is_shown() -> None:
    assert "work directory" in (batch_output(job_with(work_dir=None, stdout="a.log")).problem or "")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("rank-%t.log", "/home/ada/run/rank-*.log"),
        ("/logs/%j.%s.%N.%n.%J", "/logs/12.*.*.*.*"),
        ("/logs/%x-%t", "/logs/llm-*"),
        ("out-%r-%t.log", "/home/ada/run/out-*-*.log"),
        ("out-%b.log", "/home/ada/run/out-*.log"),
    ],
)
def test_what_differs_between_ranks_becomes_a_glob(pattern: str, path: str) -> None:
    assert step_output(job_with(), pattern) == LogPath(path=path, is_glob=True)


def test_a_glob_sign_in_a_jobs_name_or_folder_stands_for_itself() -> None:
    job = job_with(name="a*[1]?", work_dir="/home/[ada]")
    assert step_output(job, "%x-%t").path == "/home/[[]ada]/a[*][[]1][?]-*"


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_comes_to_the_same_paths_whatever_form_it_shows(release: str) -> None:
    jobs = {job.job_id: job for job in parse_jobs(recorded(release, "1-mixed", "squeue.json"))}
    plain = {number: batch_output(jobs[number]).path for number in (1, 2, 4)}
    assert plain == {
        1: "/srv/cluster/log/train-1.log", 2: "/srv/cluster/log/fail-2.log", 4: plain[4],
    }  # fmt: skip
    tasks = [job for job in jobs.values() if job.array_job_id == 3 and job.array_task_id is not None]
    assert tasks
    assert {batch_output(job).path for job in tasks} == {
        f"/srv/cluster/log/arr-{job.array_job_id}_{job.array_task_id}.log" for job in tasks
    }


def test_a_job_of_components_may_write_under_another_name_than_it_shows() -> None:
    job = job_with(het_job_id=12, het_offset=0, stdout="%x-%j.out")
    assert batch_output(job) == LogPath(path="/home/ada/run/*-12.out", is_glob=True)
