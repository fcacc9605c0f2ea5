from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from relance.detectors.watches import WatchState, counted, watch
from relance.domain.encoding import decode, encode
from relance.domain.faults import Role
from relance.domain.findings import Certainty, FindingKind
from relance.domain.observations import Observation, SeenUpTo
from relance.domain.progress import StepSeen
from tests.unit.detectors.timelines import Timeline, at, hit


def test_all_detectors_see_each_observation() -> None:
    timeline = Timeline(step=watch, state=WatchState())
    timeline.watched = replace(timeline.watched, durable_before=100)
    timeline.steps(1, 5, 0.0)
    timeline.see(hit(3.0, "xid-79", node="n1"))
    last = timeline.steps(6, 9, 3.0)
    timeline.see(hit(last, "srun-killed", rank=1))
    timeline.quiet(last, last + 200, every_s=1)

    assert [(found.kind, found.certainty) for _, found in timeline.findings] == [
        (FindingKind.DID_NOT_RESUME, Certainty.CONFIRMED),
        (FindingKind.NODE_HEALTH, Certainty.SUSPECTED),
        (FindingKind.CRASH, Certainty.CONFIRMED),
        (FindingKind.HANG, Certainty.SUSPECTED),
        (FindingKind.HANG, Certainty.SUSPECTED),
        (FindingKind.HANG, Certainty.CONFIRMED),
    ]


def test_lines_that_were_only_counted_are_in_the_next_finding() -> None:
    timeline = Timeline(step=watch, state=WatchState())
    timeline.see(hit(1.0, "srun-killed", rank=1))
    timeline.state = counted(timeline.state, {"srun-killed": 41, "store-lost": 7})

    ((_, found),) = timeline.quiet(1.0, 5.0)

    assert found.counts == {"srun-killed": 42, "store-lost": 7}


MOMENTS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(1, 200)),
        st.tuples(st.just("root"), st.integers(0, 7)),
        st.tuples(st.just("death"), st.integers(0, 7)),
        st.tuples(st.just("noise"), st.integers(0, 7)),
        st.tuples(st.just("look"), st.integers(1, 30)),
    ),
    max_size=60,
)


@given(MOMENTS)
def test_whatever_comes_ids_are_unique_states_are_small_and_survive_being_stored(
    moments: list[tuple[str, int]],
) -> None:
    kept, stored = (Timeline(step=watch, state=WatchState()) for _ in range(2))
    seconds = 0.0
    for number, (what, value) in enumerate(moments):
        seconds += value if what == "look" else 0.01
        observations: dict[str, Observation] = {
            "step": StepSeen(at=at(seconds), step=value),
            "root": hit(seconds, "traceback", rank=value, offset=number),
            "death": hit(seconds, "srun-killed", rank=value, offset=number),
            "noise": hit(seconds, "advice", role=Role.DIAGNOSTIC, offset=number),
            "look": SeenUpTo(source="files", at=at(seconds)),
        }
        observation = observations[what]
        kept.see(observation)
        stored.state = decode(WatchState, json.loads(json.dumps(encode(stored.state))))
        stored.see(observation)

    assert stored.findings == kept.findings
    ids = [found.id for _, found in kept.findings]
    assert len(ids) == len(set(ids))
    assert len(json.dumps(encode(kept.state))) <= 256 * 1024


@given(st.lists(st.sampled_from(["root", "death", "chain"]), min_size=1, max_size=20))
def test_while_steps_follow_each_frightening_line_nothing_is_ever_confirmed(lines: list[str]) -> None:
    timeline = Timeline(step=watch, state=WatchState())
    last = timeline.steps(1, 10, 0.0)
    number = 11
    for line in lines:
        rules = {"root": ["traceback"], "death": ["srun-killed"], "chain": ["traceback", "srun-killed"]}[line]
        for rule in rules:
            timeline.see(hit(last + 0.01, rule, rank=1, offset=number))
        last = timeline.steps(number, number + 2, last + 0.5)
        number += 3

    assert timeline.findings == []
