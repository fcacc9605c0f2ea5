"""However observations are cut into looks, and whatever they are, detectors come to the same findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from relance.detectors.watched import Watched
from relance.domain.findings import Finding
from relance.domain.observations import Activity, DevicePicture, Life, Observation, OddDevice, SeenUpTo
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, StepSeen
from relance.watching.pipelines import Memory, new_memory, observe, observe_all
from tests.unit.detectors.timelines import ATTEMPT, SIGNS, START, at, hit

WATCHED = Watched(
    attempt=ATTEMPT, signs=SIGNS, nodes=("n1", "n2"), ranks_per_node=2, isolating=frozenset({"metric-remap"})
)
RULES = (
    "traceback", "srun-killed", "xid-79", "metric-xid", "metric-gone", "metric-remap", "fr-missing-rank",
    "stack-minority",
)  # fmt: skip
COUNTS: tuple[Mapping[Activity, int], ...] = (
    {Activity.SPINNING: 4}, {Activity.WORKING: 4}, {Activity.SPINNING: 3, Activity.IDLE: 1},
)  # fmt: skip
ODD = (OddDevice(node="n2", device=None, activity=Activity.IDLE),)


def _observation(what: str, value: int, seconds: float, number: int) -> Observation:
    node = f"n{value % 3}" if value % 2 else None
    made: dict[str, Observation] = {
        "hit": hit(seconds, RULES[value % len(RULES)], offset=number, node=node, rank=value % 4),
        "phase": PhaseSeen(at=at(seconds), phase=tuple(Phase)[value % len(Phase)]),
        "save": CheckpointSeen(at=at(seconds), event=CheckpointEvent.BEGUN, step=value),
        "saved": CheckpointSeen(at=at(seconds), event=CheckpointEvent.DURABLE, step=value),
        "life": Life(at=at(seconds), what="folder"),
        "picture": DevicePicture(at=at(seconds), counts=COUNTS[value % 3], odd=ODD[: value % 2]),
    }
    return made[what]


@st.composite
def histories(draw: st.DrawFn) -> list[list[Observation]]:
    """Looks, each with what was read in it: runs of steps, and anything else between them."""
    looks: list[list[Observation]] = []
    seconds, step, number = 0.0, 0, 0
    for _ in range(draw(st.integers(1, 8))):
        look: list[Observation] = []
        for _ in range(draw(st.integers(0, 3))):
            for _ in range(draw(st.integers(0, 9))):
                seconds += draw(st.sampled_from([0.5, 0.5, 0.5, 30.0]))
                step = max(0, step + draw(st.sampled_from([1, 1, 1, 0, 0, -2, 5])))
                number += 1
                look.append(StepSeen(at=at(seconds), step=step, file="job.out", offset=number))
            what = draw(st.sampled_from(["hit", "hit", "phase", "save", "saved", "life", "picture"]))
            number += 1
            look.append(_observation(what, draw(st.integers(0, 40)), seconds, number))
        seconds += draw(st.sampled_from([1.0, 20.0, 200.0, 1300.0]))
        look.append(SeenUpTo(source="all", at=at(seconds)))
        looks.append(look)
    return looks


@given(histories())
def test_steps_at_once_and_one_by_one_come_to_the_same(looks: list[list[Observation]]) -> None:
    singly, at_once = new_memory(START), new_memory(START)
    found_singly: list[Finding] = []
    found_at_once: list[Finding] = []
    for look in looks:
        for observation in look:
            singly, found = observe(singly, observation, WATCHED)
            found_singly += found
        at_once, more = _in_runs(at_once, look)
        found_at_once += more

    assert at_once == singly
    assert found_at_once == found_singly


@given(histories(), st.integers(1, 40).map(lambda hours: timedelta(hours=hours)))
def test_nothing_is_confirmed_by_time_alone(looks: list[list[Observation]], later: timedelta) -> None:
    memory = new_memory(START)
    calm = [each for look in looks for each in look if isinstance(each, (StepSeen, SeenUpTo, PhaseSeen, Life))]
    findings: list[Finding] = []
    for observation in (*calm, SeenUpTo(source="all", at=START + later)):
        memory, found = observe(memory, observation, WATCHED)
        findings += found

    assert not any(finding.signs for finding in findings)


def _in_runs(memory: Memory, look: Sequence[Observation]) -> tuple[Memory, list[Finding]]:
    findings: list[Finding] = []
    run: list[Observation] = []
    with_end: list[Observation | None] = [*look, None]
    for observation in with_end:
        if isinstance(observation, StepSeen):
            run.append(observation)
            continue
        if run:
            memory, found = observe_all(memory, run, WATCHED)
            findings += found
            run = []
        if observation is not None:
            memory, found = observe(memory, observation, WATCHED)
            findings += found
    return memory, findings
