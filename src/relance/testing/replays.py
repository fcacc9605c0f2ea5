"""Recordings: what the detectors of one attempt were given and what they found, in a file, to be played again.

A file has one JSON value a line: what was known of the attempt, then each observation, then each finding as it is
stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Final

from relance.detectors.watched import Watched
from relance.domain.encoding import decode, encode
from relance.domain.findings import Finding
from relance.domain.observations import Observation
from relance.domain.progress import StepSeen
from relance.watching.checkpoints import Checkpoint, from_text, to_text
from relance.watching.pipelines import Memory, new_memory, observe, observe_all

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
"""When what is recorded began."""
Interrupt = Callable[[Memory], Memory]
"""What befalls the memory between two observations, such as that it is stored and read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What one attempt's detectors were told; `findings` are lines of JSON."""

    watched: Watched
    observations: tuple[Observation, ...]
    findings: tuple[str, ...]


def record(path: Path, watched: Watched, observations: Iterable[Observation]) -> Recording:
    """Give the observations to all detectors, and write down both what they were given and what they found."""
    given = tuple(observations)
    recording = Recording(watched=watched, observations=given, findings=tuple(played(watched, given)))
    lines = [_line(watched), *(_line(each) for each in given), *recording.findings]
    path.write_text("".join(f"{line}\n" for line in lines))
    return recording


def read(path: Path) -> Recording:
    """The recording in a file; what has been added to values since then has its default."""
    values = [json.loads(line) for line in path.read_text().splitlines()]
    return Recording(
        watched=decode(Watched, values[0]),
        observations=tuple(decode(Observation, each) for each in values[1:] if each["type"] != Finding.__name__),
        findings=tuple(_line(decode(Finding, each)) for each in values[1:] if each["type"] == Finding.__name__),
    )


def played(
    watched: Watched, observations: Iterable[Observation], interrupt: Interrupt = lambda memory: memory
) -> Iterator[str]:
    """The findings, as lines of JSON, of observations given one by one."""
    memory = new_memory(BEGAN)
    for observation in observations:
        memory, findings = observe(interrupt(memory), observation, watched)
        yield from (_line(finding) for finding in findings)


def played_in_runs(watched: Watched, observations: Iterable[Observation]) -> Iterator[str]:
    """The same with steps that follow on each other given at once, as they are in a block of a log."""
    memory = new_memory(BEGAN)
    for is_step, group in groupby(observations, lambda each: isinstance(each, StepSeen)):
        for together in [list(group)] if is_step else [[each] for each in group]:
            memory, findings = observe_all(memory, together, watched)
            yield from (_line(finding) for finding in findings)


def stored(memory: Memory) -> Memory:
    """The memory as it is after a restart of the watcher; raises ValueError if its checkpoint cannot be read."""
    checkpoint = from_text(to_text(Checkpoint(positions={}, memory=memory)))
    if checkpoint is None:
        message = "a checkpoint that was just written cannot be read"
        raise ValueError(message)
    return checkpoint.memory


WAYS: Final[Mapping[str, Callable[[Watched, Iterable[Observation]], Iterator[str]]]] = {
    "one by one": played,
    "the watcher is restarted after each": lambda watched, observations: played(watched, observations, stored),
    "steps at once": played_in_runs,
}
"""The ways in which a recording can be played; all have to give the same findings."""


def _line(value: Watched | Observation | Finding) -> str:
    return json.dumps(encode(value), separators=(",", ":"), sort_keys=True)
