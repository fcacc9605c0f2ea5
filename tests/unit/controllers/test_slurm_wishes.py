"""When a job's own settings are read, and what counts until then."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from relance.controllers.slurm.wish_files import FILE_NAME
from relance.controllers.slurm.wishes import Wishes
from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.ports.clocks import SystemClock
from relance.slurm.records import SlurmJob
from tests.unit.slurm.recorded import job_with


def job_in(folder: Path, **fields: object) -> SlurmJob:
    """A running job of ours that works in this folder."""
    return job_with(work_dir=str(folder), uid=os.geteuid(), submitted_at=100, restart_count=0, **fields)


async def test_until_its_file_was_looked_for_a_job_stays_in_observe_and_nobody_is_told(tmp_path: Path) -> None:
    wishes = Wishes(Limits(), SystemClock())
    for comment, mode in (("relance:act,restarts=2", Stage.OBSERVE), ("relance:off", Stage.OFF)):
        wish = wishes.wish_of(job_in(tmp_path, comment=comment))
        assert (wish.mode, wish.notes) == (mode, ())
    await wishes.prepare([job_in(tmp_path)])
    assert wishes.wish_of(job_in(tmp_path, comment="relance:act")).mode is Stage.ACT


async def test_what_an_owner_writes_while_a_job_runs_counts_at_its_end(tmp_path: Path) -> None:
    wishes, job = Wishes(Limits(), SystemClock()), job_in(tmp_path)
    (tmp_path / FILE_NAME).write_text("mode: act\n")
    await wishes.prepare([job])
    (tmp_path / FILE_NAME).write_text("mode: off\n")
    await wishes.prepare([job])
    assert wishes.wish_of(job).mode is Stage.ACT
    failed = replace(job, states=("FAILED",))
    await wishes.prepare([failed])
    assert wishes.wish_of(failed).mode is Stage.OFF
    (tmp_path / FILE_NAME).unlink()
    await wishes.prepare([failed])
    assert wishes.wish_of(failed).mode is Stage.OFF, "it is read once more, and not with every look"
