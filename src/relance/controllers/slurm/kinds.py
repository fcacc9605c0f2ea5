"""Kinds of jobs that are watched and never restarted, each with what its owner or the site can do about it. Pure."""

from __future__ import annotations

import re

from relance.domain.views import Wish
from relance.slurm.records import SlurmJob

FIRST_LOSING_LICENCES = (25, 5, 0)
FIRST_KEEPING_LICENCES = (25, 11, 7)
FIRST_SHOWING_ONE_JOB = (23, 11, 0)
"""Before it `squeue --json` shows the whole queue whatever job is asked for (seen: 22.05)."""
LONG_QUEUE = 200
"""A queue of more jobs takes longer to read in full than at a glance, and one job of it by tables."""


def only_watched(job: SlurmJob, own_wish: Wish, release: str, *, is_armable: bool = False) -> str:
    """Why a job of this kind is never restarted, with the remedy; empty when nothing speaks against it.

    `own_wish` is the wish in the job's own comment: an array is not opted in by anything else. `is_armable`: somebody
    whose word counts wants it made one that may be requeued.
    """
    return next((reason for reason in _reasons(job, own_wish, release, is_armable=is_armable) if reason), "")


def component_against(job: SlurmJob, release: str) -> str:
    """Why a heterogeneous job with this component is never restarted; empty when the component is no hindrance."""
    against = _licensed(job, release)
    return f"its component {job.het_offset}: {against}" if against else ""


def arming(job: SlurmJob, own_wish: Wish, *, site_allows: bool) -> str:
    """By whose word a job that may not be requeued may be made one that may; empty: by nobody's, or it may.

    `site_allows`: the cluster requeues no job that does not ask for it (JobRequeue=0), and the site's setting
    `arm_requeue_where_default` takes that for the reason of all its jobs.
    """
    if job.requeue is not False or job.is_batch is False:
        return ""
    if own_wish.arm_requeue:
        return "its own comment asks for it"
    return "the cluster's JobRequeue=0 is why it may not, and the site lets us change that" if site_allows else ""


def _reasons(job: SlurmJob, own_wish: Wish, release: str, *, is_armable: bool) -> tuple[str, ...]:
    return (
        _bridge(job),
        _interactive(job),
        _federated(job),
        _het(job),
        _expedited(job),
        _licensed(job, release),
        _array(job, own_wish),
        "" if is_armable else _refused(job),
    )


def _bridge(job: SlurmJob) -> str:
    if not job.is_external:
        return ""
    return (
        "it only holds nodes for work of another system (such as pods by slurm-bridge): Slurm has no script of it that "
        "could be run again; it has to be recovered there, as a JobSet or TrainJob"
    )


def _interactive(job: SlurmJob) -> str:
    if job.is_batch is not False:
        return ""
    return "it is interactive (salloc or srun): there is no script that could be run again; submit it with sbatch"


def _federated(job: SlurmJob) -> str:
    if not (job.federation_origin or job.federation_siblings or job.is_state("REVOKED")):
        return ""
    return "it belongs to a federation, where another cluster may take it over; submit it with --clusters=NAME"


def _het(job: SlurmJob) -> str:
    if job.het_job_id is None or not job.het_offset:
        return ""
    return f"it is component {job.het_offset} of heterogeneous job {job.het_job_id}, which restarts with its leader"


def _expedited(job: SlurmJob) -> str:
    if not job.is_expedited:
        return ""
    return (
        "it was submitted with --requeue=expedite: Slurm itself starts it again at once when a node fails, and holds "
        "it after another failure; submit it with --requeue if Relance should restart it"
    )


def _licensed(job: SlurmJob, release: str) -> str:
    if not job.licenses:
        return ""
    number = release_number(release)
    if number is None:
        return f"it holds licences ({job.licenses}) and the release of Slurm cannot be read: some lose them on requeue"
    if not FIRST_LOSING_LICENCES <= number < FIRST_KEEPING_LICENCES:
        return ""
    return f"it holds licences ({job.licenses}), and Slurm {release} loses them on requeue; 25.11.7 does not"


def _array(job: SlurmJob, own_wish: Wish) -> str:
    if job.array_job_id is None or own_wish.mode is not None:
        return ""
    return "it is a task of an array, where failures are often meant; put relance:act into the array's own --comment"


def _refused(job: SlurmJob) -> str:
    if job.requeue is not False:
        return ""
    return (
        "it was submitted with --no-requeue (or JobRequeue=0): Slurm refuses to requeue it; while it runs, "
        f"`scontrol update JobId={job.shown_id} Requeue=1` allows it; or submit it with --requeue, or with "
        "relance:act,arm_requeue in its --comment"
    )


def shows_all_for_one(release: str, count: int) -> bool:
    """Whether the full record of one job costs the reading of a long queue, which has so many jobs."""
    number = release_number(release)
    return number is not None and number < FIRST_SHOWING_ONE_JOB and count > LONG_QUEUE


def release_number(release: str) -> tuple[int, int, int] | None:
    """A release such as "25.05.2-1" as numbers that can be compared; None when it is no such thing."""
    found = re.match(r"(\d{2})\.(\d{2})(?:\.(\d+))?", release)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
