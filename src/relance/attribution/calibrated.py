"""How often answers of each level of confidence were right; written by scripts/calibrate.py."""

from __future__ import annotations

from collections.abc import Mapping

COUNTS: Mapping[str, tuple[int, int]] = {
    "very high": (130, 132),
    "high": (63, 65),
    "fair": (42, 47),
    "low": (10, 14),
    "very low": (20, 26),
}
"""For each level: right answers, all answers."""
