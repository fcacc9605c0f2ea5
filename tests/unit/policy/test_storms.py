from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain.advice import ActionKind, Effect
from relance.domain.faults import FaultDomain
from relance.domain.fleet import Storm
from relance.domain.incidents import Action, IncidentState
from relance.domain.limits import StormLimits
from relance.domain.verdicts import FleetSign
from relance.policy import Question, decide, detect_storm, park_until, storm_has_passed
from tests.unit.policy.questions import REQUEUED, at, question, with_

LIMITS = StormLimits()
NOW = at(1000)
D = FaultDomain


def signs(
    count: int, *, owners: int = 99, workflows: int = 99, domain: FaultDomain = D.STORAGE, age_s: float = 10
) -> tuple[FleetSign, ...]:
    """So many disturbances, spread over so many owners and workflows."""
    return tuple(
        FleetSign(
            incident_id=f"inc-{domain.value}-{index}",
            owner=f"user{index % owners}",
            workflow=f"flow{index % workflows}",
            domain=domain,
            cause="io_error",
            at=NOW - timedelta(seconds=age_s),
        )
        for index in range(count)
    )


SITUATIONS: dict[str, tuple[tuple[FleetSign, ...], bool]] = {
    "nothing": ((), False),
    "four owners with one domain": (signs(4), True),
    "three owners": (signs(3), False),
    "four jobs of one user": (signs(4, owners=1), False),
    "four owners, some of it longer ago": (signs(2) + signs(4, age_s=121)[2:], False),
    "four owners at the edge of the window": (signs(4, age_s=120), True),
    "four owners, two domains": (signs(2) + signs(4, domain=D.HARDWARE)[2:], False),
    "four owners with bugs of their own": (signs(4, domain=D.APPLICATION), False),
    "four owners whose cause is not known": (signs(4, domain=D.UNKNOWN), True),
    "four owners who were preempted": (signs(4, domain=D.SCHEDULER), False),
    "eight workflows with bugs of their own": (signs(8, domain=D.APPLICATION), True),
    "seven workflows": (signs(7, domain=D.APPLICATION), False),
    "an array of a hundred tasks counts once": (signs(100, owners=1, workflows=1, domain=D.APPLICATION), False),
    "a hundred jobs cancelled by people": (signs(100, domain=D.USER), False),
    "jobs with nothing wrong": (signs(100, domain=D.NONE), False),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_storm_opens_by_owners_and_workflows_not_by_raw_jobs(name: str) -> None:
    recent, opens = SITUATIONS[name]
    assert bool(detect_storm(recent, LIMITS, NOW)) is opens


def test_its_reason_says_how_many_and_of_what() -> None:
    assert _reason(signs(5)) == "jobs of 5 owners failed within 120 s with the domain storage on the whole cluster"
    assert _reason(signs(9, domain=D.APPLICATION)) == "9 workflows failed within 120 s on the whole cluster"


def _reason(recent: tuple[FleetSign, ...]) -> str:
    found = detect_storm(recent, LIMITS, NOW)
    assert found is not None
    return found.reason


def _placed(
    found: tuple[FleetSign, ...], partitions: tuple[str, ...] = (), file_systems: tuple[str, ...] = ()
) -> tuple[FleetSign, ...]:
    return tuple(
        replace(
            sign, partitions=partitions, file_systems=file_systems,
            incident_id=f"{sign.incident_id}-{'-'.join(partitions)}", owner=f"{sign.owner}-{'-'.join(partitions)}",
        )
        for sign in found
    )  # fmt: skip


GPU, CPU = ("gpu",), ("cpu",)
PLACES: dict[str, tuple[tuple[FleetSign, ...], str | None, str | None]] = {
    "one partition": (_placed(signs(4, domain=D.INTERCONNECT), GPU), "gpu", None),
    "one partition, and a stray failure elsewhere": (
        _placed(signs(4, domain=D.INTERCONNECT), GPU) + _placed(signs(1, domain=D.INTERCONNECT), CPU), "gpu", None,
    ),
    "one partition, and others that failed otherwise elsewhere": (
        _placed(signs(4, domain=D.INTERCONNECT), GPU) + _placed(signs(3, domain=D.HARDWARE), CPU), "gpu", None,
    ),
    "two partitions alike": (
        _placed(signs(4, domain=D.INTERCONNECT), GPU) + _placed(signs(2, domain=D.INTERCONNECT), CPU), None, None,
    ),
    "jobs that name both": (_placed(signs(4, domain=D.INTERCONNECT), ("gpu", "cpu")), "cpu", None),
    "partitions that are not known": (signs(4), None, None),
    "one file system over two partitions": (
        _placed(signs(2), GPU, ("/lustre",)) + _placed(signs(2), CPU, ("/lustre",)), None, "/lustre",
    ),
    "a file system that the evidence names, and the homes that all share": (
        _placed(signs(4), GPU, ("/lustre", "/home")), None, "/lustre",
    ),
    "storage of two file systems": (
        _placed(signs(2), GPU, ("/lustre",)) + _placed(signs(2), CPU, ("/home",)), None, None,
    ),
    "jobs on one file system whose storage is well": (
        _placed(signs(4, domain=D.INTERCONNECT), GPU, ("/home",)), "gpu", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_a_storm_is_that_of_the_narrowest_place_that_explains_it(name: str) -> None:
    recent, partition, file_system = PLACES[name]
    found = detect_storm(recent, LIMITS, NOW)
    assert found is not None
    assert (found.partition, found.file_system) == (partition, file_system)


STORM = Storm(storm_id="s", reason="storage", opened_at=at(500))


@pytest.mark.parametrize(
    ("storm", "recent", "passed"),
    [
        (STORM, (), True),
        (STORM, signs(1, age_s=299), False),
        (STORM, signs(1, age_s=301), True),
        (STORM, signs(1, age_s=10, domain=D.SCHEDULER), True),
        (replace(STORM, opened_at=at(800)), (), False),
        (replace(STORM, cleared_at=at(900)), (), False),
    ],
    ids=["quiet", "a new one", "an old one", "a preemption", "opened just now", "cleared already"],
)
def test_a_storm_passes_when_nothing_new_came_for_a_while(
    storm: Storm, recent: tuple[FleetSign, ...], passed: bool
) -> None:
    assert bool(storm_has_passed(storm, recent, LIMITS, NOW)) is passed


def test_a_park_is_renewed_up_to_its_longest_time() -> None:
    assert park_until(at(1000), LIMITS, at(1010)) == at(1010 + 1800)
    assert park_until(at(1000), LIMITS, at(1000 + 14000)) == at(1000 + 14400)
    assert park_until(at(1000), LIMITS, at(1000 + 14400)) is None


def _parked(given: float, shown: float) -> Question:
    """A job that we parked until `given`, while the scheduler shows that it starts at `shown`."""
    storm = Storm(storm_id="s", reason="many", opened_at=at(3500))
    asked = with_(question(), job=replace(REQUEUED, eligible_at=at(shown)), fleet__storm=storm)
    effect = Effect(summary="park", commands=(), digest="d")
    action = Action(
        id="act", advice_id="adv", generation=1, kind=ActionKind.PARK, effect=effect, holder="c", stage="act",
        started_at=at(3650), parks=True, end="ActionSucceeded",
    )  # fmt: skip
    advice = replace(decide(asked), park=True, park_until=at(given))
    incident = replace(asked.incident, state=IncidentState.SETTLED, advice=advice, action=action)
    return replace(asked, incident=incident)


@pytest.mark.parametrize(
    ("given", "shown", "renewed"),
    [
        (3700 + 200, 3700 + 200, True),
        (3700 + 1800, 3700 + 1800, False),
        # The look is from between the requeue and our update, or a person wants it earlier.
        (3700 + 1800, 3700 + 100, False),
    ],
)
def test_a_park_is_renewed_when_the_time_that_we_gave_is_near(given: float, shown: float, renewed: bool) -> None:
    assert decide(_parked(given, shown)).park is renewed
