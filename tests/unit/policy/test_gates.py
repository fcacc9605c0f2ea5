from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.domain.advice import Answer
from relance.domain.incidents import Approval
from relance.domain.quiet_hours import Quiet
from relance.domain.stages import EffectiveStage, EndRunning, Stage, Standing
from relance.domain.views import SchedulerFacts
from relance.policy import GateQuestion, LeaseSeen, decide, gates, gates_open
from relance.policy.gates import GATES
from tests.unit.policy.questions import JOB, NOW, at, question

ADVICE = decide(question())
ACT = EffectiveStage(stage=Stage.ACT, end_running=frozenset(), why=("cluster is set to act",))
APPROVE = replace(ACT, stage=Stage.APPROVE)
OPTED_IN = Standing(job=JOB, partition="gpu", wish=Stage.ACT)
YES = Approval(advice_id=ADVICE.id, generation=1, yes=True, by="olga", at=at(3690), effect_digest="d1", until=at(5000))
QUIET = Quiet(until=at(9000), words="quiet hours until 13:30 UTC")
PARK = replace(ADVICE, park=True)
OPEN = GateQuestion(
    advice=ADVICE,
    stage=ACT,
    standing=OPTED_IN,
    switch=None,
    approval=None,
    effect_digest="d1",
    facts=SchedulerFacts(release="22.05.8", may_act=True),
    lease=LeaseSeen(held=True, words="held"),
    now=NOW,
)

SITUATIONS: dict[str, tuple[dict[str, Any], str, Answer]] = {
    "act": ({}, "stage", Answer.YES),
    "observe": ({"stage": replace(ACT, stage=Stage.OBSERVE)}, "stage", Answer.NO),
    "off": ({"stage": replace(ACT, stage=Stage.OFF)}, "stage", Answer.NO),
    "the job was switched off": ({"switch": Stage.OBSERVE}, "switch", Answer.NO),
    "the job was switched to approve": ({"switch": Stage.APPROVE}, "switch", Answer.YES),
    "the job wants to be observed": ({"standing": replace(OPTED_IN, wish=Stage.OBSERVE)}, "opt_in", Answer.NO),
    "the job said nothing": ({"standing": replace(OPTED_IN, wish=None)}, "opt_in", Answer.NO),
    "the partition's rule covers it": (
        {"standing": replace(OPTED_IN, wish=None, opted_in=True)}, "opt_in", Answer.YES,
    ),
    "nothing that runs is ended": ({}, "end_running", Answer.YES),
    "no consent to end a hang": ({"advice": replace(ADVICE, ends_running=EndRunning.HANG)}, "end_running", Answer.NO),
    "consent to another kind": (
        {"advice": replace(ADVICE, ends_running=EndRunning.HANG),
         "stage": replace(ACT, end_running=frozenset({EndRunning.DEAD_RANK}))},
        "end_running", Answer.NO,
    ),
    "consent to this kind": (
        {"advice": replace(ADVICE, ends_running=EndRunning.HANG),
         "stage": replace(ACT, end_running=frozenset({EndRunning.HANG}))},
        "end_running", Answer.YES,
    ),
    "act asks nobody": ({}, "approval", Answer.YES),
    "a person's no counts in act, too": ({"approval": replace(YES, yes=False)}, "approval", Answer.NO),
    "approve, and nobody answered": ({"stage": APPROVE}, "approval", Answer.UNKNOWN),
    "approve, and a yes": ({"stage": APPROVE, "approval": YES}, "approval", Answer.YES),
    "a yes to an older generation": (
        {"stage": APPROVE, "approval": replace(YES, advice_id="adv-0", generation=0)}, "approval", Answer.UNKNOWN,
    ),
    "a no to an older generation": (
        {"approval": replace(YES, yes=False, advice_id="adv-0", generation=0)}, "approval", Answer.YES,
    ),
    "a yes that ran out": ({"stage": APPROVE, "approval": replace(YES, until=NOW)}, "approval", Answer.NO),
    "a yes without an end": ({"stage": APPROVE, "approval": replace(YES, until=None)}, "approval", Answer.NO),
    "other commands than those approved": (
        {"stage": APPROVE, "approval": YES, "effect_digest": "d2"}, "approval", Answer.NO,
    ),
    "nothing prepared": (
        {"stage": APPROVE, "approval": replace(YES, effect_digest=""), "effect_digest": ""}, "approval", Answer.NO,
    ),
    "a plain account": ({"facts": SchedulerFacts(release="22.05.8")}, "rights", Answer.NO),
    "rights not known": ({"facts": None}, "rights", Answer.UNKNOWN),
    "the lease is another's": ({"lease": LeaseSeen(held=False, words="another has it")}, "lease", Answer.NO),
    "nobody claims yet": ({"lease": LeaseSeen(held=None, words="asked at the claim")}, "lease", Answer.UNKNOWN),
    "expired": ({"now": ADVICE.expires_at}, "unexpired", Answer.NO),
    "a partition in which nothing may be acted on": (
        {"standing": replace(OPTED_IN, barred="the site lets act in debug")}, "partition", Answer.NO,
    ),
    "quiet hours": ({"quiet": QUIET}, "quiet_hours", Answer.NO),
    "parking in quiet hours": ({"quiet": QUIET, "advice": PARK}, "quiet_hours", Answer.YES),
    "as many recoveries as there may be": ({"recoveries": 2, "most_recoveries": 2}, "recoveries", Answer.NO),
    "parking beside them": ({"recoveries": 2, "most_recoveries": 2, "advice": PARK}, "recoveries", Answer.YES),
    "a controller that was told to stop": ({"stopped": "the file STOP is there"}, "controller", Answer.NO),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_gate_answers_for_itself_and_one_that_is_not_yes_closes_all(name: str) -> None:
    changes, gate, answer = SITUATIONS[name]
    found = gates(replace(OPEN, **changes))
    assert [item.name for item in found] == [known for known, _ in GATES]
    assert {item.name: item.answer for item in found}[gate] is answer
    assert all(item.reason for item in found)
    assert not gates_open(found) if answer is not Answer.YES else True


def test_a_gate_names_the_time_at_which_it_opens_by_itself() -> None:
    found = gates(replace(OPEN, quiet=QUIET, switch=Stage.OFF, switch_until=at(8000)))
    times = {gate.name: gate.ask_again_at for gate in found if gate.answer is not Answer.YES}
    assert times == {"quiet_hours": at(9000), "switch": at(8000)}


def test_with_everything_in_order_the_gates_are_open() -> None:
    assert gates_open(gates(OPEN))
    assert gates_open(gates(replace(OPEN, stage=APPROVE, approval=YES)))


def test_observe_shows_the_same_advice_with_a_closed_gate() -> None:
    found = gates(replace(OPEN, stage=EffectiveStage(stage=Stage.OBSERVE, end_running=frozenset(), why=("set so",))))
    assert [item.name for item in found if item.answer is not Answer.YES] == ["stage"]
    assert "set so" in found[0].reason
