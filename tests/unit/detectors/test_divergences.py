from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.detectors import divergences
from relance.detectors.divergences import DivergenceState
from relance.detectors.runaways import SCALE_SOUGHT, Runs
from relance.domain.encoding import decode, encode
from relance.domain.findings import Finding, FindingKind
from relance.domain.limits import DivergenceLimits
from relance.domain.observations import SeenUpTo
from relance.domain.progress import CheckpointEvent, CheckpointSeen, StepSeen
from tests.unit.detectors.timelines import Timeline, at

NAN, INF = math.nan, math.inf


@dataclass
class Training:
    """A training whose loss and gradient norm are as asked for, with noise; a look after each step."""

    loss: float | None = 2.0
    norm: float | None = 0.4
    sigma: float = 0.05
    step: int = 0
    every: int = 1
    timeline: Timeline = field(default_factory=lambda: Timeline(step=divergences.step, state=DivergenceState()))
    chance: random.Random = field(default_factory=lambda: random.Random(5))

    def train(
        self, steps: int, loss: float | None = None, norm: float | None = None, *, save_every: int = 0
    ) -> list[Finding]:
        """So many more reports, with this loss and norm instead of the usual ones."""
        before = len(self.timeline.findings)
        for _ in range(steps):
            self.step += self.every
            self.timeline.see(
                StepSeen(
                    at=at(self.step),
                    step=self.step,
                    loss=self._noisy(self.loss if loss is None else loss),
                    grad_norm=self._noisy(self.norm if norm is None else norm),
                )
            )
            if save_every and self.step % save_every == 0:
                self.save(self.step)
            self.timeline.see(SeenUpTo(source="files", at=at(self.step)))
        return [found for _, found in self.timeline.findings[before:]]

    def save(self, step: int) -> None:
        self.timeline.see(CheckpointSeen(at=at(self.step), event=CheckpointEvent.DURABLE, step=step))

    def _noisy(self, value: float | None) -> float | None:
        return None if value is None else value * math.exp(self.sigma * self.chance.gauss(0.0, 1.0))


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_loss_that_is_no_number_five_times_in_a_row_is_told_with_the_checkpoint_before_it(value: float) -> None:
    training = Training()
    training.train(107, save_every=20)
    assert training.train(4, loss=value) == []
    (found,) = training.train(1, loss=value)
    assert (found.kind, found.symptom, found.durable_before) == (FindingKind.DIVERGENCE, "loss_nan", 100)
    assert found.symptom_at == at(108)
    assert "from step 108 on; the last durable checkpoint before it is that of step 100" in found.summary
    assert training.train(100, loss=value, save_every=20) == [], "it is told once"


def test_a_gradient_norm_that_is_no_number_is_told_as_such() -> None:
    training = Training()
    training.train(100)
    (found,) = training.train(10, norm=NAN)
    assert (found.symptom, found.durable_before) == ("grad_norm_nan", None)
    assert "no durable checkpoint" in found.summary


def test_steps_that_are_skipped_now_and_then_are_normal() -> None:
    training = Training()
    assert [found for _ in range(50) for found in (*training.train(20), *training.train(4, norm=INF))] == []


def test_while_the_loss_scale_is_sought_at_first_gradients_that_overflow_are_normal() -> None:
    training = Training()
    assert training.train(SCALE_SOUGHT - 4, norm=INF) == []
    assert training.train(100) == []


def test_gradients_that_never_were_numbers_are_told_in_the_end() -> None:
    (found,) = Training().train(SCALE_SOUGHT + 10, norm=NAN)
    assert found.symptom == "grad_norm_nan"


def test_a_loss_that_is_no_number_from_the_first_step_on_is_told() -> None:
    (found,) = Training().train(10, loss=NAN)
    assert (found.symptom, found.symptom_at) == ("loss_nan", at(1))


def test_lines_without_loss_and_norm_say_nothing() -> None:
    training = Training(norm=None)
    training.train(50)
    training.train(3, loss=NAN)
    training.loss = None
    training.train(20)
    training.loss = 2.0
    (found,) = training.train(2, loss=NAN)
    assert found.symptom == "loss_nan"


def test_a_loss_that_comes_back_is_told_to_have_come_back() -> None:
    training = Training()
    training.train(100)
    training.train(10, loss=NAN)
    (over,) = training.train(20)
    assert (over.over, over.symptom) == (True, "divergence_over")
    (again,) = training.train(10, loss=NAN)
    assert again.symptom == "loss_nan"


@pytest.mark.parametrize(
    ("loss", "norm", "cause"),
    [
        (10.5, 30.0, "loss_diverged"),
        (7.5, 0.4, "loss_diverged"),
        (2.6, 9.0, "grad_norm_diverged"),
    ],
    ids=["both", "the loss", "the norm, and a little the loss"],
)
def test_a_spike_that_does_not_heal_is_told_after_the_steps_in_which_it_could(
    loss: float, norm: float, cause: str
) -> None:
    training = Training()
    training.train(105, save_every=20)
    assert training.train(58, loss, norm, save_every=20) == []
    (found,) = training.train(6, loss, norm, save_every=20)
    assert (found.symptom, found.durable_before) == (cause, 100)
    assert abs((found.symptom_at - at(106)).total_seconds()) <= 1


def test_a_spike_that_heals_is_counted_and_no_more() -> None:
    training = Training()
    training.train(200)
    for norm in (2.0, 40.0, 960.0, 300.0, 90.0, 30.0):  # as BLOOM's, which took some 30 steps
        assert training.train(5, 3.0, norm) == []
    assert training.train(300) == []
    assert training.timeline.state.runs.healed == 1


def test_single_spikes_however_many_are_no_divergence() -> None:
    training = Training()
    assert [found for _ in range(30) for found in (*training.train(40), *training.train(3, 12.0, 50.0))] == []


def test_other_data_shift_the_level_and_are_no_divergence() -> None:
    training = Training()
    assert training.train(200) + training.train(300, 2.7, 0.8) + training.train(300, 1.8, 0.3) == []


def test_a_norm_that_is_another_for_good_while_the_loss_is_the_same_becomes_the_usual_one() -> None:
    training = Training()
    assert training.train(200) + training.train(600, norm=3.0) == []
    assert training.train(100, norm=3.0) == []


def test_a_warm_up_from_a_high_loss_and_norm_is_no_divergence() -> None:
    training = Training()
    found = []
    for step in range(400):
        found += training.train(1, 2.0 + 9.0 * math.exp(-step / 60), 0.4 + 8.0 * math.exp(-step / 40))
    assert found == []


def test_small_losses_of_fine_tuning_vary_widely_and_are_no_divergence() -> None:
    training = Training(loss=0.05, sigma=0.7)
    assert training.train(3000) == []


def test_losses_that_are_zero_or_below_cannot_be_compared() -> None:
    training = Training(loss=-3.0, norm=None)
    assert training.train(200) + training.train(200, loss=-0.1) + training.train(100, loss=0.0) == []


def test_a_step_back_as_after_a_restart_inside_the_job_ends_a_spike() -> None:
    training = Training()
    training.train(200)
    training.train(30, 9.0, 30.0)
    training.step -= 50
    assert training.train(200) == []


def test_where_each_hundredth_step_is_told_one_high_value_is_not_enough() -> None:
    training = Training(every=100)
    training.train(60)
    assert training.train(2, 9.0, 30.0) + training.train(30) == []
    (found,) = training.train(12, 9.0, 30.0)
    assert found.symptom == "loss_diverged"


def test_the_checkpoint_of_an_earlier_attempt_or_that_was_loaded_may_be_the_last_before_it() -> None:
    training = Training()
    training.step = 500
    training.timeline.watched = replace(training.timeline.watched, durable_before=480)
    (found,) = training.train(10, loss=NAN)
    assert found.durable_before == 480


numbers = st.none() | st.sampled_from([0.0, -1.0, 0.3, 2.0, 2.1, 9.0, 80.0, NAN, INF])
steps = st.lists(
    st.builds(StepSeen, at=st.just(at(1)), step=st.integers(0, 60), loss=numbers, grad_norm=numbers), max_size=120
)


@given(steps, st.integers(0, 60))
def test_one_by_one_together_and_over_a_restart_come_to_the_same(seen: list[StepSeen], cut: int) -> None:
    limits = DivergenceLimits(heal_steps=8)
    one_by_one = Runs()
    for mark in seen:
        one_by_one = one_by_one.after_all([mark], limits)
    first = Runs().after_all(seen[:cut], limits)
    stored: Runs = decode(Runs, json.loads(json.dumps(encode(first), allow_nan=False)))
    assert stored == first
    assert stored.after_all(seen[cut:], limits) == one_by_one
    assert len(json.dumps(encode(one_by_one))) < 8 * 1024
