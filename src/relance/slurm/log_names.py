"""A name of its own for the output of each attempt after the first, so that a restart empties no log. Pure.

Slurm empties the file again at each start unless the job or the site asks for appending, which no command shows (22.05
to 25.11). `scontrol update StdOut=…` of a pending job is taken, and the log of the attempt before stays whole (seen on
22.05); no release before 25.11 has a pattern for the number of restarts.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from relance.slurm.records import SlurmJob

MOST_CHARS = 1024
_OURS = re.compile(r"\.r\d{1,6}\Z", re.ASCII)
_FIT = re.compile(r"/[A-Za-z0-9_./%+@=:,~-]*[A-Za-z0-9_%+@=:~-]\Z", re.ASCII)


def is_fit(path: str) -> bool:
    """Whether a path may enter a command: absolute, and made of plain signs."""
    return len(path) <= MOST_CHARS and _FIT.match(path) is not None


def name_for(job: SlurmJob, restart_count: int) -> str | None:
    """The output of the attempt with that restart count: the job's own name, and `.rN` behind it.

    None: the job writes to no file, or to one whose name may not enter a command; its log is then emptied as ever.
    """
    if restart_count < 1 or job.is_batch is False or (job.array_job_id is not None and job.array_task_id is None):
        return None
    shown = job.stdout or ("slurm-%j.out" if job.array_job_id is None else "slurm-%A_%a.out")
    if job.stdout is not None and job.has_expanded_paths and "%" in shown:
        return None  # what stands for itself there would be taken for a pattern
    if not shown.startswith("/"):
        if not job.work_dir:
            return None
        shown = str(PurePosixPath(job.work_dir) / shown)
    path = f"{_OURS.sub('', shown)}.r{restart_count}"
    is_device = PurePosixPath(shown).parent == PurePosixPath("/dev")
    return path if is_fit(path) and not is_device else None
