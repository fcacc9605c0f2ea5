"""What was kept of a job's logs: the newest piece of each file, and whose it is to read."""

from __future__ import annotations

import pytest

from relance.domain import events as e
from relance.domain.keys import AttemptKey
from relance.domain.streams import Recorded, Stream
from relance.recovery.kept_logs import is_jobs_own, kept_logs
from tests.unit.recovery.situations import AT, FIRST, JOB, SECOND


def recorded(number: int, file: str, attempt: AttemptKey = FIRST) -> Recorded:
    event = e.AttachmentKept(attempt=attempt, file=file, start_offset=number, size_bytes=9, digest=f"{number:064x}")
    return Recorded(
        stream=Stream.of_job(JOB), version=number, position=number, recorded_at=AT, event=event
    )  # fmt: skip


def test_of_each_file_of_each_attempt_the_newest_piece_counts() -> None:
    events = (recorded(1, "/w/a"), recorded(2, "/w/b"), recorded(3, "/w/a"), recorded(4, "/w/a", SECOND))
    assert [(item.attempt, item.file, item.start_offset) for item in kept_logs(events)] == [
        (FIRST, "/w/a", 3), (FIRST, "/w/b", 2), (SECOND, "/w/a", 4),
    ]  # fmt: skip
    assert [item.file for item in kept_logs(events, SECOND)] == ["/w/a"]


@pytest.mark.parametrize(
    ("file", "is_own"),
    [
        ("/w/slurm-17.out", True),
        ("/w/slurm-17.out.r1", True),
        ("/w/rank-3.log", True),
        ("/w/sub/rank-3.log", False),
        ("/var/log/kern/n1", False),
        ("evidence 1: output", False),
        ("/w/other", False),
    ],
)
def test_an_owner_reads_the_jobs_own_files_and_no_kernels(file: str, *, is_own: bool) -> None:
    assert is_jobs_own(file, ("/w/slurm-17.out.r2", "/w/rank-*.log")) is is_own
