"""The bar on replays: a recording of which something else comes now breaks it, and is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.bars import replays
from bench.measures import Result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two of the recordings."""
    for name in ("nodes", "resume"):
        shutil.copy(replays.FOLDER / f"{name}.jsonl", tmp_path)
    monkeypatch.setattr(replays, "FOLDER", tmp_path)
    return tmp_path


def differing(found: Result) -> set[float | None]:
    """How many recordings differed, over the ways."""
    return {limit.value for limit in found.limits if limit.name.startswith("differs")}


def test_recordings_as_they_are_differ_in_no_way_and_their_detectors_are_counted(folder: Path) -> None:
    found = replays.measure(quick=False)

    assert differing(found) == {0}
    assert found.figures["detectors"]["resume"] == {"observations": 39, "findings": 1}
    silent = next(limit for limit in found.limits if limit.name.startswith("detectors"))
    assert silent.value == len(replays.DETECTORS) - 2
    assert not found.is_held


def test_a_recording_of_which_something_else_comes_is_named(folder: Path) -> None:
    path = folder / "resume.jsonl"
    path.write_text(path.read_text().replace('"certainty":"confirmed"', '"certainty":"suspected"'))
    found = replays.measure(quick=False)

    assert differing(found) == {1}
    assert "resume: other findings, steps at once" in found.wrong
