from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionKind
from relance.domain.deeds import DeedState, WatchdogDeed
from relance.domain.faults import Scope
from relance.domain.ledgers import Verb
from relance.domain.stages import Stage
from relance.domain.views import Wish
from relance.recovery.queries import Queries
from relance.recovery.sites import Site
from relance.testing import history_values as values
from tests.served.worlds import World, report, world

JOB = values.job_stream("20")


async def banner(
    *events: e.Event,
    restart_count: int = 1,
    excluded: tuple[str, ...] = (),
    site: Site | None = None,
    of_kernel: bool = False,
) -> tuple[str, ...]:
    """The banner of job 20 after these events, which follow its first attempt's end."""
    made: World = await world()
    begin = tuple(in_kernel_log(event) if of_kernel else event for event in values.whole_story("20")[:7])
    seen = begin[0]
    assert isinstance(seen, e.JobSeen)
    await made.append(JOB, replace(seen, wish=Wish(max_restarts=4)), *begin[1:], *events)
    shown = report(made)
    view = replace(shown.jobs[2], raw_id="20", restart_count=restart_count, excluded=excluded)
    made.live.accept(replace(shown, sequence=2, jobs=(*shown.jobs, view)), made.clock.now())
    queries = Queries(made.history, site or Site(), made.clock, made.live)
    return (await queries.banner("20", restart_count)).lines


def in_kernel_log(event: e.Event) -> e.Event:
    """The event with its evidence from the kernel log of a node, as a log store names it."""
    if not isinstance(event, e.VerdictReached):
        return event
    hits = tuple(
        replace(hit, scope=Scope.KERNEL, file='loki:{node="n0",unit="kernel"}') for hit in event.verdict.evidence
    )
    return replace(event, verdict=replace(event.verdict, evidence=hits))


def carried_out(kind: ActionKind) -> tuple[e.Event, ...]:
    """An action of ours that was accepted."""
    started = replace(values.action_started("inc-1", "20"), kind=kind)
    return (started, values.closing("inc-1", "20")[0])


async def test_it_counts_attempts_by_the_jobs_own_limit() -> None:
    first, *_ = await banner(*carried_out(ActionKind.RESTART))
    assert first.startswith("relance: attempt 2 of at most 5 · attempt 1 ended 12:00:02 UTC")


async def test_it_says_which_node_is_kept_out_and_that_the_own_list_stays() -> None:
    assert "relance: did: requeued without n1" in await banner(*carried_out(ActionKind.RESTART), excluded=("n1",))
    told = await banner(*carried_out(ActionKind.RESTART), excluded=("n1", "n7"))
    assert "relance: did: requeued without n1; your own --exclude kept" in told


async def test_what_others_requeued_is_not_called_ours() -> None:
    told = await banner(*carried_out(ActionKind.CONSTRAIN))
    assert "relance: did: others requeued it, now without n1" in told


async def test_a_restart_by_somebody_else_is_said_to_be_that() -> None:
    assert "relance: did: nothing: the scheduler or a person started it again" in await banner()


@pytest.mark.parametrize("restart_count", [2, 7])
async def test_an_attempt_before_which_nothing_went_wrong_has_no_banner(restart_count: int) -> None:
    assert await banner(*carried_out(ActionKind.RESTART), restart_count=restart_count) == ()


async def test_a_line_of_a_kernel_log_is_not_quoted() -> None:
    site = Site(zone=ZoneInfo("Asia/Tokyo"))
    told = await banner(*carried_out(ActionKind.RESTART), site=site, of_kernel=True)
    assert "(21:00 Tokyo)" in told[0]
    assert "CUDA" not in "".join(told)
    assert "why: it is a node, not your code: n1" in told[1]


async def test_it_says_that_the_watchdog_restarted_the_job_while_no_controller_lived() -> None:
    opened = next(event for event in values.whole_story("20") if isinstance(event, e.IncidentOpened))
    deed = WatchdogDeed(
        id="dog-1", attempt=opened.attempt, verb=Verb.REQUEUE, number=1, state=DeedState.DONE, stage=Stage.ACT,
        argv=("scontrol", "requeue", "20"), restart_count=1, reason="Slurm is about to forget it", at=opened.opened_at,
    )  # fmt: skip
    lines = await banner(e.WatchdogActed(attempt=opened.attempt, deed=deed))
    assert any("requeued by the watchdog" in line for line in lines)
