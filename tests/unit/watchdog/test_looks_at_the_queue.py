from __future__ import annotations

from pathlib import Path

import pytest

from relance.slurm.parsing.watches import WATCH_COLUMNS
from relance.slurm.running import Commands
from relance.watchdog.schedulers import Scheduler
from tests.unit.watchdog.grounds import SUBMITTED

SQUEUE = """#!/bin/sh
for word in "$@"; do case $word in --Format=*) mark=${word##*:} ;; esac; done
sed "s/|/$mark/g" "$(dirname "$0")/table"
"""


def row(job_id: int, state: str, reason: str, uid: int) -> str:
    """A line of squeue; the owner's name is not known on this host."""
    shown = dict.fromkeys(WATCH_COLUMNS, "N/A") | {
        "jobid": str(job_id), "state": state, "restartcnt": "1", "submittime": "1767225600", "reason": reason,
        "username": "nobody", "userid": str(uid), "prioritylong": "0" if reason != "None" else "7", "name": "train",
    }  # fmt: skip
    return "".join(f"{value}|" for value in shown.values())


@pytest.fixture
def scheduler(tmp_path: Path) -> Scheduler:
    """A queue with a job that failed, one that is held, one that waits, and a job beside each of the same owner."""
    table = [
        "".join(f"{name.upper()}|" for name in WATCH_COLUMNS),
        row(17, "FAILED", "NonZeroExitCode", 1), row(18, "PENDING", "None", 1),
        row(27, "PENDING", "job requeued in held state", 2), row(28, "RUNNING", "None", 2),
        row(37, "PENDING", "None", 3), row(38, "RUNNING", "None", 3),
    ]  # fmt: skip
    (tmp_path / "table").write_text("\n".join([*table, ""]))
    (tmp_path / "squeue").write_text(SQUEUE)
    (tmp_path / "squeue").chmod(0o755)
    return Scheduler(Commands(bin_dir=str(tmp_path)))


@pytest.mark.parametrize(
    ("wanted", "seen"), [("17", {"17", "18"}), ("27", {"27", "28"}), ("37", {"37"}), ("99", set())]
)
async def test_of_whoever_has_a_job_that_failed_or_is_held_all_jobs_are_seen(
    scheduler: Scheduler, wanted: str, seen: set[str]
) -> None:
    assert (await scheduler.jobs({wanted: SUBMITTED})).keys() == seen
