"""A recorded input, played again, gives the same findings, bit for bit, wherever the watcher was restarted."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from relance.detectors import crashes, divergences, hangs, nodes, resumes, slowdowns
from relance.detectors.watches import WatchState
from relance.testing.replays import WAYS, read, record
from tests.replays.histories import HISTORIES

FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(HISTORIES)
DETECTORS = (crashes, divergences, hangs, nodes, resumes, slowdowns)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_a_recording_gives_the_same_findings_in_whatever_way_it_is_played(name: str, way: str) -> None:
    recording = read(FOLDER / f"{name}.jsonl")

    assert tuple(WAYS[way](recording.watched, recording.observations)) == recording.findings


@pytest.mark.parametrize("name", NAMES)
def test_a_history_is_recorded_as_it_was(name: str, tmp_path: Path) -> None:
    watched, history = HISTORIES[name]
    record(tmp_path / "again.jsonl", watched, history())
    again, kept = read(tmp_path / "again.jsonl"), read(FOLDER / f"{name}.jsonl")

    assert repr(again) == repr(kept), "if a detector was changed on purpose: python -m tests.replays"


def test_every_detector_found_something_in_a_recording() -> None:
    found = {json.loads(line)["detector"] for name in NAMES for line in read(FOLDER / f"{name}.jsonl").findings}

    assert found == {module.NAME for module in DETECTORS}
    assert len(DETECTORS) == len([field for field in dataclasses.fields(WatchState) if field.name != "version"])
