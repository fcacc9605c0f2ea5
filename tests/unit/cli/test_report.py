from __future__ import annotations

import pytest
from click.testing import CliRunner

from relance.cli.main import main
from relance.cli.reports import show
from relance.cli.screens import Screen
from relance.domain.stages import EndRunning
from relance.domain.views import JobState
from tests.unit.recovery.proving.made_up import advised, job, key, measured, opened, ran, report, requeued

FIRST, SECOND = key(), key(restart_count=1)


def test_the_report_reads_from_the_gravest_figure_to_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    hung = key("18")
    wrong = job(
        hung, *ran(hung, 0, 3, JobState.COMPLETED), *opened(hung, 1), advised(hung, 1.5, ends=EndRunning.HANG),
        measured(hung, last_step_h=2),
    )  # fmt: skip
    story = (*opened(FIRST, 1), advised(FIRST, 1.25), requeued(FIRST, 4.25), *ran(SECOND, 4.5, 9, JobState.COMPLETED))
    restarted = job(FIRST, *ran(FIRST, 0, 1), *story, measured(FIRST), partition="big")
    missed = job(key("19"), *ran(key("19"), 0, 1))
    show(Screen(as_json=False), report(wrong, restarted, missed))
    told = capsys.readouterr().out
    for words in (
        "3 jobs, 4 attempts, 2 incidents",
        "1 time: the attempt later made a step",
        "adv-alpha/18/20261101T120000Z/0-1",
        "3.0 h, 6.0 node-hours, 48.0 GPU-hours",
        "2, of which 1 without an incident and 0 found more than 60 s late",
        "1 of 1 (100 %)",
        "1 of 30 incidents; 1 time it would have ended an attempt that later made a step; none is allowed",
        "acceptance tests 1, 3, 4, 6, 7 and 8 were passed on this cluster",
    ):
        assert words in told
    assert told.index("(a)") < told.index("(b)") < told.index("(c)") < told.index("(d)") < told.index("(e)")


def test_a_history_without_anything_gives_a_report_without_anything(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen(as_json=False), report())
    told = capsys.readouterr().out
    assert "0 jobs, 0 attempts, 0 incidents" in told
    assert "no partition had a job in this time" in told


@pytest.mark.parametrize("when", ["yesterday", "0d", "30", "2026-13-01"])
def test_a_beginning_that_makes_no_sense_is_refused(when: str) -> None:
    told = CliRunner().invoke(main, ["report", "--since", when, "--server", "http://127.0.0.1:9"])
    assert told.exit_code == 2, told.output
    assert "write 30d, 12h or 2026-11-01" in told.stderr
