"""One watcher process for a fleet of 10,000 nodes: what it costs to keep up with 2,000 jobs and 1.6 million series."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measures import Limit, Result
from bench.programs.metric_store import NAMES

_NODES, _GPUS, _JOBS = 10_000, 8, 2_000
_LINE_S = 4.0
_WARM_S, _RUN_S = 45.0, 90.0
_QUICK_WARM_S, _QUICK_RUN_S = 30.0, 30.0
_CORES, _MIB = 1.0, 1024.0
_LATE_S = 2.0
_PROGRAMS = Path(__file__).resolve().parent.parent / "programs"


def measure(*, quick: bool) -> Result:
    """Run a whole watcher against a stand-in for the store, with and without signals."""
    warm_s, run_s = (_QUICK_WARM_S, _QUICK_RUN_S) if quick else (_WARM_S, _RUN_S)
    with _store() as url:
        found = _watched(url, warm_s, run_s)
        alone = _watched(url, 10.0, run_s / 3, "--no-signals")
    wrong = [] if found["sight"] == "seen" and not found["note"] else [f"{found['sight']}: {found['note']}"]
    lines_per_s = _JOBS / _LINE_S
    return Result(
        name="fleet_metrics",
        measure=f"one watcher for {_NODES:,} nodes x {_GPUS} GPUs x {len(NAMES)} metrics and {_JOBS:,} jobs",
        limits=(
            Limit(name="cores used", value=found["cores"], most=_CORES, unit=""),
            Limit(name="peak of resident memory", value=found["peak_rss_mib"], most=_MIB, unit="MiB"),
            Limit(name="its loop was late by at most", value=found["latest_s"], most=_LATE_S),
            Limit(
                name="step lines read", value=found["lines_per_s"], most=0.98 * lines_per_s, unit="/s", is_least=True
            ),
        ),
        figures={"whole": found, "without signals": alone},
        wrong=tuple(wrong),
        conditions=(
            f"a whole watcher in one process for {run_s:g} s; each job has {_NODES // _JOBS} nodes and writes a step "
            f"line every {_LINE_S:g} s, one job in 100 has an open incident and is looked at closely; the store is a "
            "stand-in in a process of its own that answers the real queries as a store would of whose nodes about one "
            "in a thousand is odd for each question; the server is in memory"
        ),
    )


@contextmanager
def _store() -> Iterator[str]:
    command = [sys.executable, str(_PROGRAMS / "metric_store.py"), "--nodes", str(_NODES), "--gpus", str(_GPUS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def _watched(url: str, warm_s: float, run_s: float, *more: str) -> dict[str, Any]:
    command = [
        *(sys.executable, str(_PROGRAMS / "fleet_watcher.py"), "--url", url, "--nodes", str(_NODES)),
        *("--jobs", str(_JOBS), "--line-s", str(_LINE_S), "--warm-s", str(warm_s), "--run-s", str(run_s), *more),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=warm_s + run_s + 120.0)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
