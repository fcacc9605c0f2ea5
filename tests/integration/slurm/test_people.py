"""Somebody acts between two of our calls on a real Slurm: some cases of `python -m bench slurm_people`.

That somebody cancels between requeue and update is acceptance test 4.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.bars.slurm_people import PEOPLE, Person, run
from bench.slurm_lanes import Lane
from relance.simulation.private_slurm import RunningCluster
from tests.integration.slurm.lanes import leased_lane

TELLING = (
    "cancels a running attempt before our requeue",
    "requeues before our requeue",
)


@pytest.fixture(scope="module")
def lane(slurm_cluster: RunningCluster) -> Iterator[Lane]:
    """Relance at act, as the operator, on nodes that are these tests' alone."""
    with leased_lane(slurm_cluster) as made:
        yield made


@pytest.mark.timeout(180)
@pytest.mark.parametrize("person", [each for each in PEOPLE if each.name in TELLING], ids=lambda person: person.name)
def test_what_a_person_does_in_the_middle_of_a_recovery_stands_and_is_told(lane: Lane, person: Person) -> None:
    assert run(lane, person) == ("", "")
