"""What is said of a job when it is first seen; and that adapters of two clusters know nothing of each other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from relance.domain.stages import Stage
from relance.domain.views import ClusterReport, JobView
from tests.unit.controllers.fake_slurm import FakeSlurm
from tests.unit.slurm.recorded import recorded

NOREQ, TIMELIMIT = "9", "4"


def with_comments(folder: Path, comments: dict[str, str], release: str = "22.05") -> FakeSlurm:
    """The recorded cluster, some jobs with another comment."""
    slurm = FakeSlurm(folder, release=release)
    document = json.loads(recorded(release, "1-mixed", "squeue.json"))
    for job in document["jobs"]:
        job["comment"] = comments.get(str(job["job_id"]), job["comment"])
    slurm.put("jobs.json", json.dumps(document).encode())
    return slurm


async def seen(slurm: FakeSlurm, **settings: object) -> dict[str, JobView]:
    scheduler = slurm.scheduler(None, **settings)
    try:
        return {job.raw_id: job for job in (await scheduler.look()).jobs}
    finally:
        await scheduler.close()


async def test_who_asks_for_act_and_is_only_watched_is_told_so_at_once(tmp_path: Path) -> None:
    jobs = await seen(with_comments(tmp_path, {NOREQ: "relance:act", TIMELIMIT: "relance:act"}))
    (note,) = jobs[NOREQ].wish.notes
    assert note.startswith("it asks for act, and is only watched: it was submitted with --no-requeue")
    assert "arm_requeue" in note
    assert jobs[TIMELIMIT].wish.notes == ()


async def test_who_asks_for_it_in_the_comment_is_armable_and_not_only_watched(tmp_path: Path) -> None:
    jobs = await seen(with_comments(tmp_path, {NOREQ: "relance:act,arm_requeue"}))
    assert jobs[NOREQ].arming == "its own comment asks for it"
    assert (jobs[NOREQ].only_watched, jobs[NOREQ].wish.notes) == ("", ())


async def test_the_sites_word_counts_only_where_the_cluster_requeues_no_job_by_itself(tmp_path: Path) -> None:
    slurm = with_comments(tmp_path, {NOREQ: "relance:act"})
    assert (await seen(slurm, arm_where_default=True))[NOREQ].arming == ""
    config = recorded("22.05", "scontrol-show-config.txt")
    assert b"JobRequeue              = 1" in config
    slurm.put("config.txt", config.replace(b"JobRequeue              = 1", b"JobRequeue              = 0"))
    assert "JobRequeue=0" in (await seen(slurm, arm_where_default=True))[NOREQ].arming
    assert (await seen(slurm))[NOREQ].arming == ""


async def test_the_form_of_another_engine_is_taken_where_the_site_takes_it(tmp_path: Path) -> None:
    slurm = with_comments(tmp_path, {TIMELIMIT: "{APS:{auto_resume_mode:requeue,max_requeue_times:2}}"})
    assert (await seen(slurm))[TIMELIMIT].wish.mode is Stage.OBSERVE
    wish = (await seen(slurm, comment_forms=("aps",)))[TIMELIMIT].wish
    assert (wish.mode, wish.max_restarts) == (Stage.ACT, 2)


async def test_two_clusters_in_one_process_are_two(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("alpha", "beta")]
    for folder in folders:
        folder.mkdir()
    alpha = with_comments(folders[0], {TIMELIMIT: "relance:act"}).scheduler(cluster="alpha")
    beta = with_comments(folders[1], {TIMELIMIT: "relance:off"}, "25.11").scheduler(cluster="beta")
    try:
        reports: tuple[ClusterReport, ...] = await asyncio.gather(alpha.look(), beta.look())
    finally:
        await alpha.close()
        await beta.close()
    jobs = [{job.raw_id: job for job in report.jobs} for report in reports]
    assert [each[TIMELIMIT].wish.mode for each in jobs] == [Stage.ACT, Stage.OFF]
    keys = {each[TIMELIMIT].job_key(report.cluster) for each, report in zip(jobs, reports, strict=True)}
    assert {key.cluster for key in keys} == {"alpha", "beta"}
