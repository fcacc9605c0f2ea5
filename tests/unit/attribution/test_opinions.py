"""What outside opinions may make of a verdict, and what they may not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relance.attribution.levels import LEVELS
from relance.attribution.opinions import with_opinions
from relance.domain.encoding import decode, encode
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.verdicts import Opinion, RunnerUp, Strength, Suspect, Verdict

AT = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)
WEAK = Suspect(node="n3", strength=Strength.WEAK, reason="a link error")
OURS = Verdict(
    domain=FaultDomain.INTERCONNECT,
    cause="ib_port_down",
    summary="a link went down",
    remedy=Remedy.RESTART,
    remedy_reason="the evidence against n3 is weak: excluded only at the second time",
    confidence=0.6,
    fingerprint="fp",
    suspects=(WEAK,),
    runner_up=RunnerUp(domain=FaultDomain.SYSTEM, cause="driver", reason="a driver error"),
)


def opinion(provider: str = "second", **changes: Any) -> Opinion:  # noqa: ANN401 - any field
    return replace(Opinion(provider=provider, at=AT, text="because of it"), **changes)


def test_agreement_of_many_is_worth_one_step_of_confidence() -> None:
    same = opinion(domain=FaultDomain.INTERCONNECT)
    once = with_opinions(OURS, (same,))
    twice = with_opinions(OURS, (same, replace(same, provider="third")))
    assert OURS.confidence < once.confidence == twice.confidence <= OURS.confidence + 0.15
    assert [item.effect for item in twice.opinions] == ["agrees", "agrees"]


def test_a_surer_verdict_states_a_level_with_its_counts() -> None:
    levels = {level.stated: level for level in reversed(LEVELS)}
    for stated in levels:
        verdict = with_opinions(replace(OURS, confidence=stated), (opinion(domain=FaultDomain.INTERCONNECT),))
        assert verdict.confidence in levels
        assert verdict.confidence == max(levels) or verdict.basis == levels[verdict.confidence].basis


def test_the_highest_confidence_does_not_rise() -> None:
    highest = max(level.stated for level in LEVELS)
    sure = replace(OURS, confidence=highest)
    assert with_opinions(sure, (opinion(domain=FaultDomain.INTERCONNECT),)).confidence == highest


def test_who_agrees_on_another_try_and_names_no_domain_agrees() -> None:
    assert with_opinions(OURS, (opinion(remedy=Remedy.RESTART_EXCLUDING),)).confidence > OURS.confidence


def test_nobody_agrees_with_a_verdict_that_says_unknown() -> None:
    unknown = replace(OURS, domain=FaultDomain.UNKNOWN)
    assert with_opinions(unknown, (opinion(remedy=Remedy.RESTART),)).confidence == unknown.confidence


@pytest.mark.parametrize(
    "other",
    [
        {"domain": FaultDomain.APPLICATION, "cause": "bad_loss"},
        {"remedy": Remedy.STOP},
        {"remedy": Remedy.NONE},
        {"domain": FaultDomain.INTERCONNECT, "remedy": Remedy.STOP},
    ],
)
def test_a_contradiction_is_the_runner_up_and_takes_the_agreement_of_others_away(other: dict[str, Any]) -> None:
    verdict = with_opinions(OURS, (opinion(**other), opinion("third", domain=FaultDomain.INTERCONNECT)))
    assert (verdict.remedy, verdict.confidence) == (OURS.remedy, OURS.confidence)
    assert verdict.runner_up is not None
    assert verdict.runner_up.reason.startswith("second sees ")
    assert "our own next best: a driver error" in verdict.runner_up.reason


def test_to_wait_and_to_restart_are_no_contradiction() -> None:
    assert with_opinions(OURS, (opinion(remedy=Remedy.WAIT),)).runner_up == OURS.runner_up


def test_a_node_of_our_own_weak_evidence_that_another_names_is_left_out() -> None:
    verdict = with_opinions(OURS, (opinion(suspects=("n3", "n9")),))
    assert verdict.remedy is Remedy.RESTART_EXCLUDING
    assert verdict.remedy_reason == "it runs on without n3, which second names as our own evidence does"
    (suspect,) = verdict.suspects
    assert (suspect.node, suspect.strength, suspect.before) == ("n3", Strength.WEAK, (AT,))
    assert verdict.opinions[0].effect == "names n3 too"


@pytest.mark.parametrize(
    "other",
    [
        {"suspects": ("n9",)},
        {"suspects": ("n1", "n2", "n3", "n4", "n5")},
        {"suspects": ("n3",), "domain": FaultDomain.APPLICATION},
        {"suspects": ("n3",), "late": True},
    ],
    ids=["another node", "half the job", "where it showed", "too late"],
)
def test_what_does_not_point_at_a_node_leaves_none_out(other: dict[str, Any]) -> None:
    verdict = with_opinions(OURS, (opinion(**other),))
    assert (verdict.remedy, verdict.suspects) == (OURS.remedy, OURS.suspects)


@pytest.mark.parametrize("remedy", [Remedy.STOP, Remedy.WAIT, Remedy.NONE])
def test_a_remedy_that_is_no_restart_never_changes(remedy: Remedy) -> None:
    ours = replace(OURS, remedy=remedy)
    assert with_opinions(ours, (opinion(remedy=Remedy.RESTART, suspects=("n3",)),)).remedy is remedy


def test_a_late_opinion_is_kept_and_changes_nothing() -> None:
    late = opinion(domain=FaultDomain.APPLICATION, remedy=Remedy.STOP, late=True)
    assert with_opinions(OURS, (late,)) == replace(OURS, opinions=(late,))


def test_weighing_again_gives_the_same() -> None:
    once = with_opinions(OURS, (opinion(suspects=("n3",)), opinion("third", remedy=Remedy.STOP)))
    assert with_opinions(OURS, once.opinions) == once
    assert with_opinions(OURS, reversed(once.opinions)) == once


def test_a_verdict_of_before_there_were_opinions_is_still_read() -> None:
    stored = encode(OURS)
    del stored["opinions"]
    assert decode(Verdict, stored) == OURS
    full = with_opinions(OURS, (opinion(suspects=("n3",), at=AT + timedelta(seconds=1)),))
    assert decode(Verdict, encode(full)) == full
