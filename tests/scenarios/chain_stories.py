"""Stories of jobs that belong together: chains and arrays."""

from __future__ import annotations

from datetime import timedelta

from relance.domain import events as e
from relance.domain.advice import ActionKind
from relance.domain.faults import Remedy, RestartHint
from relance.domain.stages import Stage
from relance.domain.views import Wish
from tests.scenarios import findings
from tests.scenarios.acts import changes, fails, finds, submits
from tests.scenarios.storybooks import story
from tests.scenarios.timelines import Timeline
from tests.scenarios.worlds import BEGIN, World

END = e.IncidentEnd
_LATER = BEGIN + timedelta(seconds=100)


def _chain(stage: Stage = Stage.ACT) -> Timeline:
    """The first of a chain dies of a bad node; the next waits for something else than its end as well."""
    line = Timeline(stage=stage, until_s=150)
    line.at(0, submits())
    line.at(5, submits("18"), changes("18", dependency="afterany:17", eligible_at=_LATER))
    line.at(60, finds(lambda attempt, world: findings.fell_off_the_bus(attempt, "n2", world.now)), fails())
    return line


@story
def the_next_of_a_chain_is_kept_off_the_bad_node_and_nothing_is_restarted() -> Timeline:
    line = _chain()
    line.want(60, 80, e.AdviceIssued, lambda event: event.advice.successor == "18" and event.advice.may_begin, times=1)
    line.want(74, 78, e.ActionStarted, lambda event: event.kind is ActionKind.CONSTRAIN, times=1)
    line.never(e.ActionStarted, lambda event: event.kind is not ActionKind.CONSTRAIN)
    line.want(100, 102, e.AttemptStarted, lambda event: "n2" not in event.nodes, times=1)
    line.ends(END.LEFT)
    return line


@story
def a_proof_that_comes_after_the_end_still_keeps_the_next_of_a_chain_off_the_bad_node() -> Timeline:
    line = Timeline(until_s=150)
    line.at(0, submits())
    line.at(5, submits("18"), changes("18", dependency="afterany:17", eligible_at=_LATER))
    line.at(60, finds(lambda attempt, world: findings.killed_rank(attempt, world.now)), fails())
    line.at(70, finds(lambda attempt, world: findings.fell_off_the_bus(attempt, "n2", world.now)))
    line.want(70, 95, e.ActionStarted, lambda event: event.kind is ActionKind.CONSTRAIN, times=1)
    line.never(e.ActionStarted, lambda event: event.kind is not ActionKind.CONSTRAIN)
    line.want(100, 102, e.AttemptStarted, lambda event: "n2" not in event.nodes, times=1)
    line.ends(END.LEFT)
    return line


@story
def in_observe_the_next_of_a_chain_is_left_as_it_is() -> Timeline:
    line = _chain(Stage.OBSERVE)
    line.want(60, 80, e.ActionPrepared)
    line.never(e.ActionStarted)
    line.ends(END.LEFT)
    return line


@story
def a_next_of_a_chain_that_is_not_to_be_touched_is_not() -> Timeline:
    line = _chain()
    line.at(6, changes("18", wish=Wish(mode=Stage.OBSERVE)))
    line.never(e.ActionStarted)
    return line


@story
def the_next_of_a_chain_that_runs_already_is_the_next_attempt() -> Timeline:
    line = Timeline(until_s=150)
    line.at(0, submits(node_count=2))
    line.at(5, submits("18", node_count=2), changes("18", dependency="singleton"))
    line.at(60, finds(lambda attempt, world: findings.fell_off_the_bus(attempt, "n2", world.now)), fails())
    line.never(e.ActionStarted)
    line.ends(END.LEFT)
    return line


@story
def where_another_try_is_no_use_the_owner_is_told_how_to_hold_the_rest() -> Timeline:
    line = Timeline(until_s=150)
    line.at(0, submits())
    line.at(5, submits("18"), changes("18", dependency="afterany:17", eligible_at=_LATER))
    line.at(60, finds(lambda attempt, world: findings.own_bug(attempt, world.now, RestartHint.NO)), fails())
    line.never(e.ActionStarted)
    line.want(60, 90, e.AdviceIssued, lambda event: event.advice.action is Remedy.STOP
              and any("scontrol hold 18" in reason for reason in event.advice.reasons))  # fmt: skip
    line.ends(END.STOPPED)
    return line


def _array(wish: Wish) -> Timeline:
    line = Timeline(until_s=250, world=World(nodes=12))
    for number in range(30, 40):
        line.at(0, submits(str(number), node_count=1, wish=wish), changes(str(number), array="30"))
    return line


def _fails_alike(line: Timeline, second: int, *names: str) -> None:
    for name in names:
        line.at(second, finds(lambda attempt, world: findings.own_bug(attempt, world.now), name), fails(name))


@story
def tasks_of_an_array_are_restarted_by_its_own_wish_until_too_many_fail_alike() -> Timeline:
    line = _array(Wish(mode=Stage.ACT))
    _fails_alike(line, 60, "30", "31")
    _fails_alike(line, 150, "32", "33")
    line.want(74, 100, e.ActionStarted, times=2)
    line.never(e.ActionStarted, after_s=140)
    line.want(150, 190, e.IncidentClosed, lambda event: "failed in the same way" in event.reason, times=2)
    return line


@story
def an_array_without_a_wish_of_its_own_is_only_watched() -> Timeline:
    line = _array(Wish())
    _fails_alike(line, 60, "30")
    line.want(60, 80, e.AdviceIssued)
    line.never(e.ActionStarted)
    return line
