"""How often the cluster's settings and our rights are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import pytest

from relance.controllers.slurm.questions import Questions
from relance.controllers.slurm.sites import SiteReader
from relance.controllers.slurm.ways import Way
from relance.slurm.parsing.settings import parse_settings
from relance.slurm.running import Commands, Output
from relance.slurm.site_records import ControlFacts, Reservation, SlurmNode
from relance.telemetry.schedulers import SchedulerMeter
from relance.testing.manual_clocks import ManualClock
from tests.unit.slurm.recorded import recorded

_T = TypeVar("_T")


class _Answers:
    """A cluster that answers at once, and counts how often it is asked for rights."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.asked = 0
        self.way = Way(Commands(), ManualClock(), SchedulerMeter("alpha"))

    async def nodes(self, *, urgent: bool) -> tuple[SlurmNode, ...]:
        return ()

    async def reservations(self, *, urgent: bool) -> tuple[Reservation, ...]:
        return ()

    async def settings(self, *, urgent: bool) -> ControlFacts:
        return parse_settings(recorded("25.11", "scontrol-show-config.txt"))

    async def federation(self, *, urgent: bool) -> str:
        return ""

    async def rights(self, argv: Sequence[str], parse: Callable[[bytes], _T], *, urgent: bool) -> _T:
        self.asked += 1
        return parse(self.line)


@pytest.mark.parametrize(
    ("line", "asked"),
    [(b"", 10), (b"relance|None|\n", 10), (b"relance|Operator|\n", 2), (b"relance|None|physics\n", 2)],
)
async def test_rights_that_do_not_let_us_act_are_asked_for_each_minute(line: bytes, asked: int) -> None:
    answers, clock = _Answers(line), ManualClock()
    sites = SiteReader(
        cast("Questions", answers), clock, SchedulerMeter("alpha"), account=("relance", 990), intervals_s=(30.0, 60.0)
    )
    for _ in range(60):
        await sites.read()
        clock.advance(10)
    assert answers.asked == asked


async def test_what_the_way_to_slurm_lacks_is_missing_for_act() -> None:
    answers = _Answers(b"relance|Operator|\n")
    sites = SiteReader(
        cast("Questions", answers), ManualClock(), SchedulerMeter("alpha"), account=("relance", 990),
        intervals_s=(30.0, 60.0),
    )  # fmt: skip
    before = (await sites.read()).facts.lacks
    answers.way.note(Output(argv=(), exit_code=0, stdout=b"", stderr="", wall_s=0, lacks="the script only reads"))
    assert (await sites.read()).facts.lacks == (*before, "the script only reads")


async def test_rights_that_were_given_are_seen_within_a_minute() -> None:
    answers, clock = _Answers(b""), ManualClock()
    sites = SiteReader(
        cast("Questions", answers), clock, SchedulerMeter("alpha"), account=("relance", 990), intervals_s=(30.0, 60.0)
    )
    assert not (await sites.read()).facts.may_act
    answers.line = b"relance|Operator|\n"
    clock.advance(60)
    assert (await sites.read()).facts.may_act
