"""What the detectors were given, played again from recordings: whether the same is found, bit for bit, in each way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.measures import Limit, Result
from relance.detectors import crashes, divergences, hangs, nodes, resumes, slowdowns
from relance.testing.replays import WAYS, Recording, read

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "replays" / "recorded"
DETECTORS = tuple(module.NAME for module in (crashes, divergences, hangs, nodes, resumes, slowdowns))


def measure(*, quick: bool) -> Result:  # noqa: ARG001 - it takes seconds as it is
    """Play all recordings in all ways."""
    recordings = {path.stem: read(path) for path in sorted(FOLDER.glob("*.jsonl"))}
    differing = {way: [name for name, each in recordings.items() if _differs(each, way)] for way in WAYS}
    found = {name: _found(each) for name, each in recordings.items()}
    silent = [name for name in DETECTORS if not any(name in each for each in found.values())]
    return Result(
        name="replays",
        measure="recorded input of every detector played again: the same findings, bit for bit",
        limits=(
            *(Limit(name=f"differs: {way}", value=len(names), most=0, unit="") for way, names in differing.items()),
            Limit(name="recordings played", value=len(recordings), most=1, unit="", is_least=True),
            Limit(name="detectors that no recording has find something", value=len(silent), most=0, unit=""),
        ),
        figures={
            "detectors": {name: _judged(name, recordings, found) for name in DETECTORS},
            "recordings": {
                name: {"observations": len(each.observations), "findings": dict(found[name])}
                for name, each in recordings.items()
            },
        },
        wrong=tuple(f"{name}: other findings, {way}" for way, names in differing.items() for name in names),
        conditions=(
            "each recording holds all that the detectors of one attempt were given, and what they found of it; it is "
            "played observation by observation, through a checkpoint written and read before each, and with the steps "
            "that follow on each other at once; findings are compared as the JSON that is stored"
        ),
    )


def _differs(recording: Recording, way: str) -> bool:
    return tuple(WAYS[way](recording.watched, recording.observations)) != recording.findings


def _found(recording: Recording) -> Counter[str]:
    """How many findings each detector has in a recording."""
    return Counter(json.loads(line)["detector"] for line in recording.findings)


def _judged(name: str, recordings: Mapping[str, Recording], found: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """What one detector was given, which is all of it, and what it found."""
    return {
        "observations": sum(len(each.observations) for each in recordings.values()),
        "findings": sum(each.get(name, 0) for each in found.values()),
    }
