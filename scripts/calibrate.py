"""Count how often answers of each level of confidence are right on the cases of this repository, and write the counts.

Usage: python scripts/calibrate.py [FOLDER...]; default: all sets below cases/.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from relance.attribution.levels import LEVELS
from relance.cli.diagnosing import means_of
from relance.cli.evaluating import evaluation_of, found_below
from relance.ports.clocks import SystemClock

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "relance" / "attribution" / "calibrated.py"


def main() -> None:
    """Score all cases and write the module."""
    folders = [Path(name) for name in sys.argv[1:]] or [ROOT / "cases"]
    means = means_of(None)
    right: Counter[str] = Counter()
    every: Counter[str] = Counter()
    now = SystemClock().now()
    for folder, cases in found_below(folders).items():
        for score in evaluation_of(folder, cases, means, now).scored:
            every[score.answer.level] += 1
            right[score.answer.level] += score.right
    lines = [f'    "{level.name}": ({right[level.name]}, {every[level.name]}),' for level in LEVELS]
    head, _, rest = TARGET.read_text(encoding="utf-8").partition("= {\n")
    tail = rest.partition("}\n")[2]
    TARGET.write_text(head + "= {\n" + "\n".join(lines) + "\n}\n" + tail, encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
