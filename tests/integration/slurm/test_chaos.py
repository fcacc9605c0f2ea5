"""The chaos run: its two-minute form; the one of twenty minutes belongs to the soak. On a private Slurm of its own."""

from __future__ import annotations

import pytest

from bench.bars import chaos
from bench.measures import Result
from bench.punishers import Deed
from tests.components.slurm import require_slurm


def shows(result: Result) -> str:
    """What a failure is to tell: each sentence, and what was done."""
    return "\n".join([*result.wrong, str(result.figures)])


@pytest.mark.timeout(900)
def test_trainings_come_through_the_loss_of_ranks_nodes_and_relances_own_processes() -> None:
    require_slurm()
    result = chaos.measure(quick=True)
    assert result.is_held, shows(result)
    done = result.figures["deeds"]
    # The last ones of the list may find all jobs finished.
    assert {Deed.NODE.value, Deed.RANK.value, Deed.CONTROLLER.value, Deed.SERVER.value} <= set(done), shows(result)
    assert result.figures["restarts by Relance"] > 0, shows(result)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_twenty_trainings_come_through_twenty_minutes_of_it() -> None:
    require_slurm()
    result = chaos.measure(quick=False)
    assert result.is_held, shows(result)
