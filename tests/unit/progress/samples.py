"""Pieces of logs in the shape of each framework, by the name of its dialect."""

from __future__ import annotations

from pathlib import Path

SAMPLES = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "lives").glob("*.log"))}
