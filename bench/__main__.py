"""`python -m bench [NAME...] [--quick] [--json]`: measure, and hold the bars.

The result goes to standard output as JSON, and into `docs/reference/measured`, where a quick one replaces no full one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
import time
from dataclasses import replace

from bench.machines import commit, machine
from bench.measures import Limit, Result
from bench.pages import kept
from relance.ports.clocks import SystemClock

NAMES = (
    "commands",
    "scanning",
    "evaluate_cases",
    "divergences",
    "slowdowns",
    "hangs",
    "detections",
    "restarts",
    "stories",
    "frights",
    "nodes",
    "bugs",
    "memory",
    "crashes",
    "quiet",
    "fleet_metrics",
    "outages",
    "replays",
    "soak",
    "slurm_detections",
    "slurm_restarts",
    "slurm_dead_ranks",
    "slurm_lost_nodes",
    "slurm_storm",
    "slurm_queue",
    "watchdog",
    "slurm_people",
    "slurm_shims",
    "slurm_faults",
    "chaos",
    "slurm_acceptance",
)
"""One module of `bench.bars` each, the short ones first."""


def main() -> int:
    """Measure what is asked for; 0 when all bars were held, 1 when one was not."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure, and hold the bars.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which; default all: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs, for a first look")
    parser.add_argument("--json", action="store_true", help="say nothing but the JSON, not even on standard error")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    # What was started or mounted is ended and taken away also when somebody ends us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    results: list[Result] = []
    for name in options.names or NAMES:
        if not options.json:
            _say(f"{name} ...")
        result = _measured(name, quick=options.quick)
        results.append(result)
        kept([result], SystemClock().now().date().isoformat())
        if not options.json:
            _tell(result)
    found = {"machine": machine(), "commit": commit(), "results": {each.name: each.data for each in results}}
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0 if all(result.is_held for result in results) else 1


def _measured(name: str, *, quick: bool) -> Result:
    begun = time.monotonic()
    try:
        result: Result = importlib.import_module(f"bench.bars.{name}").measure(quick=quick)
    except Exception as error:  # noqa: BLE001 -- one broken benchmark must not hide the others
        limit = Limit(name="measured", value=None, most=0, unit="")
        result = Result(name=name, measure=name, limits=(limit,), wrong=(f"{type(error).__name__}: {error}",))
    return replace(result, duration_s=time.monotonic() - begun, is_quick=quick)


def _tell(result: Result) -> None:
    for limit in result.limits:
        value = "nothing" if limit.value is None else f"{limit.value:g}"
        word = "held" if limit.is_held else "NOT HELD"
        bound = "at least" if limit.is_least else "at most"
        _say(f"  {limit.name}: {value}, {bound} {limit.most:g} {limit.unit} {word}")
    for sentence in result.wrong:
        _say(f"  wrong: {sentence}")
    _say(f"  {'held' if result.is_held else 'NOT HELD'}, {result.duration_s:.0f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
