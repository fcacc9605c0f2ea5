"""`python -m tests.replays`: record all histories anew, after a detector was changed on purpose."""

from __future__ import annotations

from pathlib import Path

from relance.testing.replays import record
from tests.replays.histories import HISTORIES

FOLDER = Path(__file__).parent / "recorded"

if __name__ == "__main__":
    for name, (watched, history) in HISTORIES.items():
        recording = record(FOLDER / f"{name}.jsonl", watched, history())
        print(f"{name}: {len(recording.observations)} observations, {len(recording.findings)} findings")  # noqa: T201
