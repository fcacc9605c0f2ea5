from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from relance.bootstrap.canaries.grounds import Ground
from relance.bootstrap.canaries.procedures import Plan, _switch, run_canary
from relance.bootstrap.proofs.rows import Level
from relance.client.errors import ServerUnreachableError
from relance.domain.views import ClusterReport, SchedulerFacts
from relance.ports.clocks import SystemClock
from relance.ports.schedulers import SchedulerSilentError

NEVER_STARTED = Plan(acts=True, trials=(), stop_controller=("/nowhere/stop",), start_controller=("/nowhere/start",))
TEN_YEARS_S = 3650 * 86_400.0
CLOCK = SystemClock()


class Scheduler:
    """One that only tells how long it knows an ended job, or nothing at all."""

    def __init__(self, age_s: float | None) -> None:
        self._age_s = age_s

    async def look(self) -> ClusterReport:
        if self._age_s is None:
            raise SchedulerSilentError("no answer")
        facts = SchedulerFacts(release="22.05.8", min_job_age_s=self._age_s)
        return ClusterReport(
            cluster="alpha", session="s", sequence=1, as_of=CLOCK.now(), facts=facts, jobs=(), nodes=()
        )


class Away:
    """A server that is not there: after the first trial nothing more is tried."""

    def set_stage(self, *_: object) -> None:
        raise ServerUnreachableError("away")


@pytest.mark.parametrize(
    ("age_s", "level", "words"),
    [(TEN_YEARS_S, Level.WARN, "not tried"), (None, Level.BAD, "does not say how long")],
)
async def test_where_there_is_nothing_to_save_no_controller_is_stopped(
    age_s: float | None, level: Level, words: str, tmp_path: Path
) -> None:
    nobody = cast("Any", None)
    ground = Ground(
        cluster="alpha", partition="canary", folder=tmp_path, nodes=1, patience_s=0, quiet_s=0, jobs=nobody,
        scheduler=cast("Any", Scheduler(age_s)), client=cast("Any", Away()), clock=CLOCK, tell=lambda _: None,
    )  # fmt: skip
    report = await run_canary(ground, NEVER_STARTED)
    row = report.rows[0]
    assert (row.source, row.name, row.level) == ("watchdog", "saved", level)
    assert words in row.means
    assert [row.name for row in report.rows] == ["saved", "observe"], "nothing was submitted, stopped or started"


async def test_what_a_sites_command_prints_is_no_part_of_the_report(capfd: pytest.CaptureFixture[str]) -> None:
    class Heard:
        rows: list[tuple[object, ...]]

        def say(self, *row: object) -> None:
            self.rows = [row]

    run = Heard()
    assert await _switch(cast("Any", run), "controller stopped", ("sh", "-c", "echo stopping"))
    assert capfd.readouterr() == ("", "stopping\n")
    assert run.rows[0][1] is Level.OK
