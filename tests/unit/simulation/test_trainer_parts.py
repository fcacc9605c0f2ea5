from __future__ import annotations

import json
from pathlib import Path

import pytest

from relance.simulation import checkpoints, node_faults, scenarios
from relance.simulation.corpora import Shard
from relance.simulation.networks import SIZE, Adam, checksum, first_weights, loss_and_gradient
from relance.simulation.scenarios import Place, Scenario, Scenarios

SAMPLES = Shard(rank=0, ranks=2, seed=1).samples(1, 3)


@pytest.mark.parametrize("index", [3, 110, 240, 260, 700, SIZE - 1])
def test_the_gradient_is_the_slope_of_the_loss(index: int) -> None:
    weights = first_weights(1)
    _, gradient = loss_and_gradient(weights, SAMPLES)
    step = 1e-6
    weights[index] += step
    above, _ = loss_and_gradient(weights, SAMPLES)
    weights[index] -= 2 * step
    below, _ = loss_and_gradient(weights, SAMPLES)
    assert gradient[index] == pytest.approx((above - below) / (2 * step), abs=1e-6)


def test_shards_differ_by_rank_and_are_the_same_in_every_attempt() -> None:
    first, again, other = (Shard(rank=rank, ranks=2, seed=1).samples(5, 8) for rank in (0, 0, 1))
    assert first == again
    assert first != other
    assert Shard(rank=499, ranks=500, seed=1).samples(5, 8)


def test_a_checkpoint_comes_back_to_the_last_bit_and_old_ones_go(tmp_path: Path) -> None:
    weights, optimizer = first_weights(3), Adam()
    for step in range(1, 6):
        _, gradient = loss_and_gradient(weights, SAMPLES)
        optimizer.step(weights, gradient, 0.01)
        checkpoints.save(tmp_path, step, weights, optimizer)
    found = checkpoints.load(tmp_path)
    assert found is not None
    assert (found[0], checksum(found[1]), found[2]) == (5, checksum(weights), optimizer)
    assert sorted(path.name for path in tmp_path.glob("iter_*")) == ["iter_0000003", "iter_0000004", "iter_0000005"]


def test_a_save_that_was_broken_off_leaves_the_one_before(tmp_path: Path) -> None:
    weights = first_weights(3)
    checkpoints.save(tmp_path, 1, weights, Adam())
    (tmp_path / "iter_0000002").mkdir()
    (tmp_path / "iter_0000002" / "model_optim_rng.json.new").write_text("{")
    found = checkpoints.load(tmp_path)
    assert found is not None
    assert found[0] == 1


def test_a_damaged_checkpoint_is_not_trained_on(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, first_weights(3), Adam())
    path = tmp_path / "iter_0000001" / "model_optim_rng.json"
    state = json.loads(path.read_text())
    state["weights"][0] += 1e-12
    path.write_text(json.dumps(state))
    with pytest.raises(checkpoints.CheckpointDamaged):
        checkpoints.load(tmp_path)


def test_without_a_tracker_there_is_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoints.load(tmp_path) is None


def test_scenarios_are_read_from_a_text() -> None:
    assert scenarios.parsed("bug:at=120,ranks=0+3") == Scenario(name="bug", at=120, ranks=(0, 3))
    assert scenarios.parsed("slow:factor=1.5").factor == 1.5


def test_a_scenario_befalls_its_ranks_at_its_step() -> None:
    given = [scenarios.parsed(text) for text in ("pause:at=4,s=2,ranks=1", "slow:at=6,factor=2", "bug:at=9")]
    befallen = Scenarios(given, Place(rank=1, local_rank=1))
    spared = Scenarios(given, Place(rank=0, local_rank=0))
    assert [befallen.turn(step).pause_s for step in (3, 4, 5)] == [0.0, 2.0, 0.0]
    assert spared.turn(4).pause_s == 0.0
    assert [spared.turn(step).slower for step in (5, 6, 7)] == [1.0, 2.0, 2.0]
    assert [spared.turn(step).damaged for step in (8, 9, 10)] == [False, True, False]


def test_a_file_begins_a_scenario_once_and_a_half_written_one_is_left_for_the_next_step(tmp_path: Path) -> None:
    running = Scenarios([], Place(rank=0, local_rank=0, scenario_dir=tmp_path))
    assert not running.turn(7).frightening
    (tmp_path / "frightening").write_text('{"ranks": [')
    assert not running.turn(8).frightening
    scenarios.begin(tmp_path, "frightening", ranks=[0])
    assert [running.turn(step).frightening for step in (9, 10)] == [True, False]
    scenarios.end(tmp_path, "frightening")
    assert not running.turn(11).frightening


def test_a_broken_node_strikes_its_first_rank_some_steps_after_it_was_seen(tmp_path: Path) -> None:
    node_faults.break_node(tmp_path, after_steps=2, kernel_delay_s=1.5)
    struck = Scenarios([], Place(rank=2, local_rank=0, node_dir=tmp_path))
    spared = Scenarios([], Place(rank=3, local_rank=1, node_dir=tmp_path))
    for step in (11, 12):
        struck.check_device(step)
    spared.check_device(13)
    assert node_faults.taken_raise(tmp_path) is None
    with pytest.raises(scenarios.AcceleratorError, match="unspecified launch failure"):
        struck.check_device(13)
    assert node_faults.taken_raise(tmp_path) == 1.5
    assert node_faults.taken_raise(tmp_path) is None
