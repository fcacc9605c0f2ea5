"""Commands that people wait for: `relance diagnose` on a hundred megabytes and on little, and `relance --help`."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.job_logs import JobLog, write_job_log
from bench.measures import Limit, Result
from relance.rules import Pack
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts

_LOG_BYTES = 100_000_000
_RANKS = 64
_STEP_SHARE = 0.05
_RUNS, _QUICK_RUNS = 7, 3
_DIAGNOSE_S, _DIAGNOSE_MIB, _SMALL_S, _HELP_S = 1.5, 300.0, 0.5, 0.25
_CRASH = """\
[rank7]: Traceback (most recent call last):
[rank7]:   File "/repo/train.py", line 221, in main
[rank7]:     step(batch)
[rank7]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 7 has 79.11 GiB in all
"""


def measure(*, quick: bool) -> Result:
    """Run the commands on one core as a person would, with what an earlier run left in the cache."""
    runs = _QUICK_RUNS if quick else _RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = _environment(folder)
        big, small = folder / "big", folder / "small"
        big.mkdir()
        small.mkdir()
        write_job_log(big / "job.log", JobLog(size_bytes=_LOG_BYTES, ranks=_RANKS, steps=_STEP_SHARE), _pack())
        (small / "job.log").write_text(_CRASH, encoding="utf-8")
        with (big / "job.log").open("a", encoding="utf-8") as file:
            file.write(_CRASH)
        first_s = _took_s(["diagnose", "--json", str(small)], environment)
        big_s = [_took_s(["diagnose", "--json", str(big)], environment) for _ in range(runs)]
        peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        small_s = [_took_s(["diagnose", "--json", str(small)], environment) for _ in range(runs)]
        help_s = [_took_s(["--help"], environment) for _ in range(runs)]
    return Result(
        name="commands",
        measure="`relance diagnose` of 100 MB of 64 ranks and of a few lines, and `relance --help`, start included",
        limits=(
            Limit(name="diagnose_100mb, median", value=_median(big_s), most=_DIAGNOSE_S),
            Limit(name="diagnose_100mb, peak memory", value=round(peak_mib, 1), most=_DIAGNOSE_MIB, unit="MiB"),
            Limit(name="diagnose of a few lines, median", value=_median(small_s), most=_SMALL_S),
            Limit(name="help_time, median", value=_median(help_s), most=_HELP_S),
        ),
        figures={
            "first_run_s": round(first_s, 3),
            "diagnose_100mb_s": [round(each, 3) for each in big_s],
            "diagnose_few_lines_s": [round(each, 3) for each in small_s],
            "help_s": [round(each, 3) for each in help_s],
        },
        conditions=(
            f"wall time on one core, medians of {runs} runs; 100 MB of {_RANKS} ranks in one file, "
            f"{_STEP_SHARE:.0%} of its lines progress, one sign in 100,000 lines and a traceback at its end; modules "
            "compiled to bytecode and rules kept in the user's cache by a first run, which is given apart (first_run_s)"
        ),
    )


def _pack() -> Pack:
    return load_pack(read_texts())


def _environment(folder: Path) -> Mapping[str, str]:
    """A fresh cache, and bytecode as an installed program has it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _took_s(arguments: list[str], environment: Mapping[str, str]) -> float:
    core = {max(os.sched_getaffinity(0))}
    begun = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "relance", *arguments],
        check=True,
        env=environment,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, core),
    )
    return time.monotonic() - begun


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 3)
