from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.detectors import slowdowns
from relance.detectors.paces import Pace
from relance.detectors.slowdowns import FINDINGS_AT_MOST, SlowdownState
from relance.domain.encoding import decode, encode
from relance.domain.faults import Role, Scope
from relance.domain.findings import Finding, FindingKind, RuleHit
from relance.domain.limits import SlowdownLimits
from relance.domain.observations import SeenUpTo
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, ProgressMark, StepSeen
from tests.unit.detectors.timelines import START, Timeline, at, hit


@dataclass
class Training:
    """A training on a virtual clock: steps take about `step_s`, by a seeded generator; a look after each of them."""

    step_s: float = 2.0
    sigma: float = 0.05
    tells_time: bool = True
    every: int = 1
    look_every: int = 1
    now_s: float = 0.0
    step: int = 0
    timeline: Timeline = field(default_factory=lambda: Timeline(step=slowdowns.step, state=SlowdownState()))
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def train(self, steps: int, times: float = 1.0) -> list[Finding]:
        """So many more steps, each so many times as long as usual."""
        before, took_s = len(self.timeline.findings), 0.0
        for _ in range(steps):
            one_s = self.step_s * times * math.exp(self.sigma * self.chance.gauss(0.0, 1.0))
            self.step += 1
            self.now_s += one_s
            took_s += one_s
            if self.step % self.every:
                continue
            told_s = took_s / self.every if self.tells_time else None
            self.timeline.see(StepSeen(at=at(self.now_s), step=self.step, step_time_s=told_s))
            took_s = 0.0
            if self.step % self.look_every == 0:
                self.look()
        return [found for _, found in self.timeline.findings[before:]]

    def look(self) -> list[Finding]:
        return self.timeline.see(SeenUpTo(source="files", at=at(self.now_s)))

    def pause(self, seconds: float, *marks: ProgressMark) -> None:
        for mark in marks:
            self.timeline.see(replace(mark, at=at(self.now_s)))
        self.now_s += seconds

    def sign(self, node: str = "n2", **changes: object) -> RuleHit:
        fields: dict[str, object] = {
            "scope": Scope.METRICS, "node": node, "role": Role.CONTEXT, "captures": {"slow": "yes"},
            "excerpt": f"{node} gpu0: clocks held down by heat", "file": f"prometheus/{node}",
        }  # fmt: skip
        seen = hit(self.now_s, "clocks-throttled", **{**fields, **changes})
        self.timeline.see(seen)
        return seen


SAVED = CheckpointSeen(at=START, event=CheckpointEvent.DURABLE, step=1)
SAVING = CheckpointSeen(at=START, event=CheckpointEvent.BEGUN, step=1)
EVALUATING = PhaseSeen(at=START, phase=Phase.EVALUATING)


@pytest.mark.parametrize(
    "training",
    [
        Training(),
        Training(tells_time=False),
        Training(step_s=1.0),
        Training(step_s=45.0, tells_time=False),
        Training(every=10, look_every=10),
    ],
    ids=["told times", "times of lines", "short steps", "long steps", "each tenth step"],
)
def test_a_slowdown_of_15_percent_in_noise_is_found_within_60_steps(training: Training) -> None:
    assert training.train(300) == []
    (found,) = training.train(60, 1.15)
    assert (found.kind, found.symptom, found.hits) == (FindingKind.SLOWDOWN, "slowdown", ())
    assert abs((found.symptom_at - at(0)).total_seconds() - 300 * training.step_s) < 25 * training.step_s
    assert training.train(400, 1.15) == [], "it is told once"


def test_three_times_as_long_is_found_after_few_steps_of_training() -> None:
    training = Training(step_s=0.2, sigma=0.02)
    training.timeline.watched = replace(training.timeline.watched, slowdown=SlowdownLimits(steps=16, for_s=3.0))
    assert training.train(40) == []
    (found,) = training.train(30, 3.0)
    assert "3.0 times as long" in found.summary


def test_that_steps_take_their_usual_time_again_is_told_and_a_second_slowdown_is_another() -> None:
    training = Training()
    training.train(300)
    (first,) = training.train(100, 1.3)
    (over,) = training.train(100)
    (second,) = training.train(100, 1.3)
    assert (over.over, over.symptom, over.kind) == (True, "slowdown_over", FindingKind.SLOWDOWN)
    assert (first.over, second.over) == (False, False)
    assert len({first.id, over.id, second.id}) == 3


def test_a_job_that_is_now_slow_and_now_not_is_told_of_a_few_times() -> None:
    training = Training()
    training.train(200)
    found = [found for _ in range(14) for found in (*training.train(100, 1.5), *training.train(100))]
    assert sum(not each.over for each in found) == FINDINGS_AT_MOST
    assert len({each.id for each in found}) == len(found)


def test_a_faster_job_is_no_news() -> None:
    training = Training()
    assert training.train(300) + training.train(200, 0.7) == []


def test_a_few_slow_steps_are_no_slowdown() -> None:
    training = Training()
    training.train(200)
    assert [found for _ in range(20) for found in (*training.train(12, 2.0), *training.train(100))] == []


@pytest.mark.parametrize("tells_time", [True, False])
def test_saves_evaluations_and_a_slow_warm_up_are_no_slowdown(*, tells_time: bool) -> None:
    training = Training(tells_time=tells_time)
    found = training.train(4, 20.0)
    for _ in range(40):
        found += training.train(25)
        training.pause(70.0, SAVING)
        training.pause(0.0, SAVED)
        found += training.train(1)
        training.pause(200.0, EVALUATING)
    assert found == []


def test_evaluations_that_nobody_announces_are_no_slowdown() -> None:
    training = Training(tells_time=False)
    found = []
    for _ in range(40):
        found += training.train(20)
        training.pause(90.0)
    assert found == []


def test_after_another_start_or_compilation_another_pace_is_usual() -> None:
    for phase in (Phase.STARTING, Phase.COMPILING, Phase.LOADING):
        training = Training()
        training.train(300)
        training.pause(60.0, PhaseSeen(at=START, phase=phase))
        assert training.train(300, 1.5) == []


def test_a_slowdown_lasts_over_another_start() -> None:
    training = Training()
    training.train(300)
    (found,) = training.train(100, 1.5)
    training.pause(60.0, PhaseSeen(at=START, phase=Phase.STARTING))
    assert training.train(200, 1.5) == []
    (over,) = training.train(100)
    assert (found.over, over.over) == (False, True)


def test_steps_that_are_told_again_or_go_back_are_no_slowdown() -> None:
    training = Training()
    training.train(200)
    training.step -= 50
    assert training.train(100) == []
    for step in range(60):
        training.timeline.see(StepSeen(at=at(training.now_s + 100 * step), step=training.step - step % 2))
        training.look()
    assert training.timeline.findings == []


def test_late_words_of_another_source_hide_no_slowdown() -> None:
    training = Training(step_s=5.0)
    found = []
    for times in (*[1.0] * 300, *[1.5] * 60):
        found += training.train(1, times)
        if training.step % 3 == 0:
            training.timeline.see(StepSeen(at=at(training.now_s - 7.0), step=training.step - 2))
    assert [each.symptom for each in found] == ["slowdown"]


def test_a_slow_drift_by_a_third_in_a_day_is_no_slowdown() -> None:
    training = Training(step_s=20.0)
    assert [found for hour in range(24) for found in training.train(180, 1.0 + hour / 72)] == []


def test_of_an_attempt_that_is_over_or_stands_still_for_others_nothing_is_told() -> None:
    training = Training()
    training.train(300)
    training.timeline.watched = replace(training.timeline.watched, ended_at=at(training.now_s))
    assert training.train(100, 2.0) == []


def test_a_sign_from_before_the_change_comes_with_the_finding() -> None:
    training = Training()
    training.train(280)
    seen = training.sign()
    training.train(20)
    (found,) = training.train(60, 1.5)
    assert found.hits == (seen,)
    assert "n2: n2 gpu0: clocks held down by heat" in found.summary
    assert found.first_evidence_at == seen.when


def test_a_sign_that_comes_later_is_told_after_it_and_again_only_with_another() -> None:
    training = Training()
    training.train(300)
    (first,) = training.train(60, 1.5)
    seen = training.sign()
    (second,) = training.train(20, 1.5)
    training.sign()
    assert training.train(20, 1.5) == []
    training.sign("n1")
    (third,) = training.train(20, 1.5)
    training.sign("n1", device="gpu7")
    assert training.train(20, 1.5) == [], "no more than a few"
    assert (first.hits, second.hits, len(third.hits)) == ((), (seen,), 2)
    assert len({first.id, second.id, third.id}) == 3


def test_signs_of_other_nodes_of_other_kinds_or_of_long_ago_explain_nothing() -> None:
    training = Training()
    training.train(20)
    training.sign()
    training.train(800)
    training.sign("n9")
    training.sign(captures={})
    training.sign(scope=Scope.APPLICATION)
    (found,) = training.train(60, 1.5)
    assert found.hits == ()


def test_the_state_is_small_and_bounded() -> None:
    training = Training()
    for number in range(200):
        training.sign("n1", device=f"gpu{number}", excerpt="x" * 500)
        training.train(20, 1.0 + number % 3)
    assert len(json.dumps(encode(training.timeline.state))) < 32 * 1024


marks = st.one_of(
    st.builds(
        StepSeen,
        at=st.integers(0, 4000).map(lambda tenths: START + timedelta(seconds=tenths / 10)),
        step=st.integers(0, 400),
        step_time_s=st.none() | st.sampled_from([0.0, 0.5, 1.0, 3.0, math.inf, math.nan]),
    ),
    st.just(SAVED),
    st.just(PhaseSeen(at=START, phase=Phase.STARTING)),
)


@given(st.lists(marks, max_size=80), st.integers(0, 40))
def test_one_by_one_together_and_over_a_restart_come_to_the_same(seen: list[ProgressMark], cut: int) -> None:
    limits = SlowdownLimits(steps=4, for_s=2.0)
    steps = [mark for mark in seen if isinstance(mark, StepSeen)]
    one_by_one = Pace()
    for mark in steps:
        one_by_one = one_by_one.after_all([mark], limits)
    first = Pace().after_all(steps[:cut], limits)
    stored: Pace = decode(Pace, json.loads(json.dumps(encode(first))))
    assert stored == first
    assert stored.after_all(steps[cut:], limits) == one_by_one
    timeline = Timeline(step=slowdowns.step, state=SlowdownState())
    for observation in seen:
        timeline.see(observation)
        timeline.see(SeenUpTo(source="files", at=at(1.0)))


def test_lengths_of_sequences_that_vary_widely_are_no_slowdown() -> None:
    training = Training(sigma=0.3)
    assert training.train(4000) == []


def modes(chance: random.Random, share: float) -> Iterable[float]:
    while True:
        yield 1.6 if chance.random() < share else 1.0


@pytest.mark.parametrize("share", [0.03, 0.1, 0.3, 0.5])
def test_steps_of_two_lengths_in_any_mixture_are_no_slowdown(share: float) -> None:
    training = Training(sigma=0.02)
    found = []
    for _, times in zip(range(4000), modes(random.Random(3), share), strict=False):
        found += training.train(1, times)
    assert found == []
