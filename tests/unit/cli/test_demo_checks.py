"""The demonstration tells a good end from a bad one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from relance.cli.demos.acts import Phase
from relance.cli.demos.checks import Account, problems
from relance.cli.demos.faults import FaultName
from relance.cli.demos.outputs import AttemptOutput
from relance.domain.events import IncidentEnd
from relance.domain.faults import FaultDomain, Remedy
from tests.unit.cli import acted

Spoil = Callable[[Account], Account]


@pytest.mark.parametrize("name", list(FaultName), ids=lambda name: name.value)
def test_an_act_that_came_out_right_has_no_problems(name: FaultName) -> None:
    assert problems(acted.good_account(name)) == ()


def with_incident(**changes: object) -> Spoil:
    """Change the newest incident."""

    def spoil(account: Account) -> Account:
        known = account.act.story
        assert known is not None
        newest, *others = known.incidents
        changed = replace(known, incidents=(replace(newest, **changes), *others))  # type: ignore[arg-type]
        return replace(account, act=replace(account.act, story=changed))

    return spoil


def with_attempts(*states: str) -> Spoil:
    """Change the scheduler's accounting."""
    return lambda account: replace(account, attempts=acted.accounting(*states))


def resumed(loaded: int, first: int) -> Spoil:
    """Change what the second attempt did."""

    def spoil(account: Account) -> Account:
        second = replace(account.outputs[1], loaded_step=loaded, first_step=first)
        return replace(account, outputs=(account.outputs[0], second))

    return spoil


WRONG: list[tuple[str, FaultName, Spoil, str]] = [
    ("another domain", FaultName.KILL, with_incident(domain=FaultDomain.HARDWARE), "the verdict says hardware"),
    ("another remedy", FaultName.KILL, with_incident(action=Remedy.STOP), "the advice is stop, not restart"),
    ("another end", FaultName.KILL, with_incident(end=IncidentEnd.RELAPSED), "the incident is relapsed"),
    ("no new work", FaultName.KILL, with_incident(times=replace(acted.incident().times, progress=None)), "no step"),
    ("an early incident", FaultName.KILL, with_incident(opened_at=acted.after(-1)), "before the fault"),
    ("a node kept out", FaultName.KILL, with_incident(excluded=("node004",)), "node004 was kept out without need"),
    ("a job that failed", FaultName.KILL, with_attempts("FAILED", "FAILED"), "the job ended FAILED, not COMPLETED"),
    ("too many attempts", FaultName.KILL, with_attempts("FAILED", "FAILED", "COMPLETED"), "3 attempts, not 2 to 2"),
    ("lost steps", FaultName.KILL, resumed(0, 1), "went on from step 0, though step 10 was saved"),
    ("a jump", FaultName.KILL, resumed(10, 13), "loaded step 10 and went on with step 13"),
    ("another story", FaultName.KILL, resumed(15, 16), "the history has (10, 11)"),
    ("the wrong node", FaultName.NODE, with_incident(suspects=("node001",)), "node002 is not among the suspects"),
    (
        "the broken node again",
        FaultName.NODE,
        lambda account: replace(account, attempts=acted.accounting("FAILED", "FAILED", "COMPLETED")),
        "3 attempts ran on node node002",
    ),
    ("a bug that is tried for ever", FaultName.BUG, with_attempts(*["FAILED"] * 4), "4 attempts, not 1 to 3"),
    ("no stop", FaultName.BUG, with_incident(action=Remedy.RESTART), "the advice is restart, not stop"),
    ("a fright that restarts", FaultName.SCARE, with_attempts("FAILED", "COMPLETED"), "2 attempts, not 1 to 1"),
    (
        "a fright that ends the training",
        FaultName.SCARE,
        lambda account: replace(account, outputs=(AttemptOutput(loaded_step=0, first_step=1, last_step=15),)),
        "no step after the fright",
    ),
    (
        "a fright that never came",
        FaultName.SCARE,
        lambda account: replace(account, outputs=(replace(account.outputs[0], frightened=False),)),
        "it was never frightened",
    ),
    (
        "a fright that is acted upon",
        FaultName.SCARE,
        lambda account: replace(account, act=replace(account.act, story=acted.story(acted.incident(), attempts=1))),
        "it was acted upon",
    ),
    ("a slow job that restarts", FaultName.SLOW, with_attempts("FAILED", "COMPLETED"), "2 attempts, not 1 to 1"),
    ("a slow job that is stopped", FaultName.SLOW, with_incident(action=Remedy.STOP), "the advice is stop, not none"),
    ("a node that is blamed", FaultName.SLOW, with_incident(summary="on node002"), "does not say 'no node evidence'"),
    (
        "a slow job that is found late",
        FaultName.SLOW,
        lambda account: replace(account, act=replace(account.act, found_step=107)),
        "found 61 steps after the fault, not within 60",
    ),
    (
        "time",
        FaultName.KILL,
        lambda account: replace(account, act=replace(account.act, overdue="it was not over")),
        "it was not over",
    ),
    (
        "an end before the fault",
        FaultName.KILL,
        lambda account: replace(account, act=replace(account.act, broken_at=None)),
        "too early",
    ),
    (
        "nothing seen",
        FaultName.KILL,
        lambda account: replace(account, act=replace(account.act, story=acted.story())),
        "no incident was opened",
    ),
]


@pytest.mark.parametrize(("name", "spoil", "sentence"), [item[1:] for item in WRONG], ids=[item[0] for item in WRONG])
def test_what_came_out_wrong_is_said(name: FaultName, spoil: Spoil, sentence: str) -> None:
    found = problems(spoil(acted.good_account(name)))
    assert any(sentence in each for each in found), found


def test_a_restart_that_is_not_ours_is_a_problem() -> None:
    account = acted.good_account()
    known = account.act.story
    assert known is not None
    foreign = tuple(replace(item, by_us=False) for item in known.attempts)
    account = replace(account, act=replace(account.act, story=replace(known, attempts=foreign)))
    assert "attempts [1] were not started by a restart of ours" in problems(account)


def test_an_act_that_is_not_over_is_a_problem() -> None:
    account = acted.good_account()
    assert problems(replace(account, act=replace(account.act, phase=Phase.BROKEN)))
