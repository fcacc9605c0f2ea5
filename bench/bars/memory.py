"""100 jobs with 8 files each: how much memory all of Relance needs, and whether it grows."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from bench.machines import processor_s, resident_mib
from bench.measures import Limit, Result, spread
from bench.rigs import Rig, Setup, rig, until, wish
from relance.ports.clocks import SystemClock
from relance.simulation.training_lines import StepReport, step_line

_JOBS, _FILES = 100, 8
_RUN_S, _QUICK_RUN_S = 600.0, 90.0
_LINES_PER_FILE_AND_S = 1.0
_RESIDENT_MIB = 200.0
_GROWTH = 1.05
"""Resident memory of the last fifth over that of the second fifth."""
_LOOK_EVERY_S = 1.0
_CALM = "INFO dataloader: prefetched 64 batches, 0 retries, 0 errors, queue depth 16\n"


def measure(*, quick: bool) -> Result:
    """Write to 800 files for ten minutes and read the resident memory of `relance up`."""
    run_s = _QUICK_RUN_S if quick else _RUN_S
    with rig(Setup(cluster={"nodes": _JOBS})) as made:
        files = _submit(made)
        until(lambda: _running(made) == _JOBS, 120.0, f"{_JOBS} running jobs")
        pid = made.relance.pids["up"]
        begun, used = time.monotonic(), processor_s(pid)
        samples, lines = _write_and_look(files, pid, run_s)
        busy = (processor_s(pid) - used) / (time.monotonic() - begun)
        seen = [row.progress.step or 0 for row in made.client.jobs(limit=200) if row.progress is not None]
    fifth = len(samples) // 5
    early, late = statistics.median(samples[fifth : 2 * fifth]), statistics.median(samples[-fifth:])
    wrong = [] if len(seen) == _JOBS else [f"only {len(seen)} of {_JOBS} jobs have progress"]
    return Result(
        name="memory",
        measure="100 jobs x 8 files, 10 minutes: resident memory of `relance up`, and its growth",
        limits=(
            Limit(name="resident, max", value=round(max(samples), 1), most=_RESIDENT_MIB, unit="MiB"),
            Limit(name="late over early", value=round(late / early, 3), most=_GROWTH, unit=""),
        ),
        figures={
            "resident_mib": spread(samples).data,
            "early_mib": round(early, 1),
            "late_mib": round(late, 1),
            "minutes": round(run_s / 60, 1),
            "lines_written": lines,
            "cores_used": round(busy, 3),
        },
        wrong=tuple(wrong),
        conditions=(
            f"{_JOBS} jobs of one node with {_FILES} files each, about {_LINES_PER_FILE_AND_S:g} line per file and "
            "second, one file of each job with step lines; VmRSS of the one process, once a second"
        ),
    )


def _submit(made: Rig) -> list[list[Path]]:
    every: list[list[Path]] = []
    for number in range(_JOBS):
        folder = made.cluster.work_dir / f"many-{number}"
        folder.mkdir()
        files = [folder / f"rank-{each}.log" for each in range(_FILES)]
        for file in files:
            file.touch()
        made.cluster.ask(
            "submit",
            name=f"many-{number}",
            argv=["sleep", "100000"],
            nodes=1,
            work_dir=str(made.cluster.work_dir),
            comment=wish(logs=[str(folder / "rank-*.log")]),
        )
        every.append(files)
    return every


def _running(made: Rig) -> int:
    return sum(row["state"] == "RUNNING" for row in made.cluster.ask("jobs")["jobs"])


def _write_and_look(files: list[list[Path]], pid: int, run_s: float) -> tuple[list[float], int]:
    """Write to all files in turn, evenly over each second, and take a sample each second."""
    samples: list[float] = []
    lines = 0
    begun = time.monotonic()
    step = 0
    while time.monotonic() - begun < run_s:
        step += 1
        second_began = time.monotonic()
        for number, job in enumerate(files):
            for file in job:
                with file.open("a", encoding="utf-8") as open_file:
                    open_file.write(_step_line(step) if file is job[-1] else _CALM)
                lines += 1
            behind = number / len(files) * _LOOK_EVERY_S - (time.monotonic() - second_began)
            if behind > 0:
                time.sleep(behind)
        samples.append(resident_mib(pid))
        time.sleep(max(0.0, _LOOK_EVERY_S - (time.monotonic() - second_began)))
    return samples, lines


def _step_line(step: int) -> str:
    report = StepReport(
        step=step, steps=100_000, samples=step * 8, elapsed_ms=1000.0, learning_rate=1e-3, batch=8, loss=2.0, norm=1.0
    )
    return step_line(report, SystemClock().now()) + "\n"
