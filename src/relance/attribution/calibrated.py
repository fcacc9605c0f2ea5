"""How often answers of each level of confidence were right; written by scripts/calibrate.py."""

from __future__ import annotations

from collections.abc import Mapping

COUNTS: Mapping[str, tuple[int, int]] = {
    "very high": (98, 101),
    "high": (47, 50),
    "fair": (30, 42),
    "low": (6, 11),
    "very low": (15, 20),
}
"""For each level: right answers, all answers."""
