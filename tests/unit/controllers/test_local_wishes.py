"""A job's own wishes on the simulated scheduler are clipped by the limits of its site."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from relance.controllers.local.rows import Accounting, job_view
from relance.domain.limits import HangLimits, Limits

ROW: dict[str, Any] = {
    "job_id": 7,
    "name": "llama",
    "user": "mara",
    "uid": 1001,
    "partition": "train",
    "state": "RUNNING",
    "reason": "None",
    "restart_count": 0,
    "submit_time": 1_767_225_600.0,
    "eligible_time": None,
    "start_time": 1_767_225_601.0,
    "end_time": None,
    "preempt_time": None,
    "node_list": ["n1"],
    "node_count": 1,
    "ranks_per_node": 1,
    "exclude": [],
    "nodelist": [],
    "features": [],
    "exit_code": "0:0",
    "derived_exit_code": "0:0",
    "cancelled_by": None,
    "hold": "none",
    "requeue": True,
    "time_limit_s": None,
    "dependency": "",
    "comment": "relance:act,hang=6",
    "work_dir": "/w",
    "std_out": "/w/slurm-7.out",
    "ranks_files": [],
    "script_hash": "abc",
}
ACCOUNTING = Accounting(steps=(), past=(), first_submitted_at=datetime(2026, 1, 1, tzinfo=UTC))


def test_the_shortest_silence_that_a_job_may_ask_for_is_its_site_s() -> None:
    short = Limits(hang=HangLimits(suspected_min_s=3.0))
    assert job_view(ROW, ACCOUNTING, short).wish.hang_after_s == 6.0
    assert job_view(ROW, ACCOUNTING, Limits()).wish.hang_after_s == Limits().hang.suspected_min_s
