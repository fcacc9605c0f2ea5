"""The operators' acceptance tests on a private Slurm, all of them and with their long forms."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from bench.measures import Limit, Result

_ROOT = Path(__file__).resolve().parent.parent.parent
_TESTS = "tests/acceptance"
_LIMIT_S = 3 * 3600.0
_NUMBER = re.compile(r"test_(\d+)_")


def measure(*, quick: bool) -> Result:
    """Run them; when quick without the long forms."""
    with tempfile.TemporaryDirectory(prefix="relance-bench-") as place:
        report = Path(place) / "report.xml"
        argv = [sys.executable, "-m", "pytest", _TESTS, "-q", "-p", "no:randomly", "-n", "2", f"--junitxml={report}"]
        # The marks: everything, or what is not set apart for the soak.
        done = subprocess.run(
            [*argv, "-m", "not soak" if quick else ""],
            cwd=_ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        if not report.exists():
            raise RuntimeError(f"no report of the tests: {done.stdout[-500:]}{done.stderr[-500:]}")
        cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 -- our own pytest wrote it
    outcomes = Counter(_outcome(case) for case in cases)
    wrong = [f"{_name(case)}: {_reason(case)}" for case in cases if _outcome(case) != "passed"]
    return Result(
        name="slurm_acceptance",
        measure="the operators' acceptance tests 1 to 7 and 9, on real Slurm as far as a private cluster can show them",
        limits=(Limit(name="failed", value=outcomes["failed"] if outcomes["passed"] else None, most=0, unit=""),),
        figures={
            "passed": outcomes["passed"],
            "failed": outcomes["failed"],
            "not run": outcomes["not run"],
            "seconds by test": _durations(cases),
        },
        wrong=tuple(wrong),
        conditions=(
            "real processes of a user of its own beside private Slurm clusters of one machine: no network file system, "
            "no GPU, minutes in place of hours where a limit is a setting; each test names what it shortens"
        ),
    )


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "not run" if case.find("skipped") is not None else "passed"


def _name(case: ET.Element) -> str:
    return case.get("name", "")


def _reason(case: ET.Element) -> str:
    told = next(iter(case), None)
    return (told.get("message", "") if told is not None else "").splitlines()[0][:300]


def _durations(cases: list[ET.Element]) -> dict[str, float]:
    """Seconds by the number of the acceptance test."""
    spent: Counter[str] = Counter()
    for case in cases:
        found = _NUMBER.search(case.get("classname", ""))
        spent[found[1] if found else "other"] += round(float(case.get("time", "0")))
    return dict(sorted(spent.items()))
