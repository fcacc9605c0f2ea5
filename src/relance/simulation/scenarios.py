"""What befalls a training run: asked for on the command line, or by files that appear while it runs.

A scenario is written `name` or `name:key=value,key=value`. A file of that name in the scenario folder (see `begin`)
does the same from the next step on; it may hold the keys as a JSON object. Keys: `at` (step; in a file by default the
next one), `ranks` (as "0+3"; a list in a file; default all), `s` (seconds), `factor`, `code`.

    bug          a record of the data is damaged: the same KeyError at this step in every attempt
    frightening  rank 0 runs out of memory, says so at length, catches it and trains on
    pause        silence for `s` seconds
    slow         each step takes `factor` times as long, from step `at` on
    exit         the process ends with `code` and without a word

A node's own fault is in `relance.simulation.node_faults`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relance.simulation import node_faults

NAMES = ("bug", "frightening", "pause", "slow", "exit")
_DEFAULT_PAUSE_S = 30.0
_DEFAULT_FACTOR = 3.0


class OutOfMemoryError(RuntimeError):
    """There is no memory left on the device. Named as torch's own."""

    __module__ = "torch"


class AcceleratorError(RuntimeError):
    """The device failed. Named as torch's own."""

    __module__ = "torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One thing that is to happen."""

    name: str
    at: int | None = None
    ranks: tuple[int, ...] = ()
    """Empty: all; for `frightening` rank 0."""
    s: float = _DEFAULT_PAUSE_S
    factor: float = _DEFAULT_FACTOR
    code: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rank runs."""

    rank: int
    local_rank: int
    node_dir: Path | None = None
    scenario_dir: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the scenarios make of one step of this rank."""

    damaged: bool = False
    frightening: bool = False
    pause_s: float = 0.0
    slower: float = 1.0
    exit_code: int | None = None


class Scenarios:
    """All that is to befall one rank."""

    def __init__(self, given: Iterable[Scenario], place: Place) -> None:
        self._given = tuple(given)
        self._place = place
        self._begun: dict[str, int] = {}
        """When scenarios from files were first seen, by name."""
        self._breaks_at: int | None = None

    def turn(self, step: int) -> Turn:
        """What is to befall this rank in this step."""
        here = [each for each in (*self._given, *self._from_files(step)) if self._concerns(each)]
        now = [each for each in here if each.at == step]
        factors = [each.factor for each in here if each.name == "slow" and step >= (each.at or 0)]
        if self._place.node_dir is not None:
            factors.append(node_faults.slowness(self._place.node_dir))
        return Turn(
            damaged=any(each.name == "bug" for each in now),
            frightening=any(each.name == "frightening" for each in now),
            pause_s=sum(each.s for each in now if each.name == "pause"),
            slower=max(factors, default=1.0),
            exit_code=next((each.code for each in now if each.name == "exit"), None),
        )

    def check_device(self, step: int) -> None:
        """Wait for the device, as the end of a step does.

        Raises:
            AcceleratorError: The node is broken and this is the step at which it shows.
        """
        folder = self._place.node_dir
        if folder is None or self._place.local_rank != 0:
            return
        left = node_faults.steps_until_break(folder)
        if left is None:
            self._breaks_at = None
            return
        if self._breaks_at is None:
            self._breaks_at = step + left
        if step >= self._breaks_at:
            node_faults.raise_mark(folder)
            raise AcceleratorError(
                "CUDA error: unspecified launch failure\n"
                "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
                "might be incorrect.\n"
                "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
                "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
            )

    def _concerns(self, scenario: Scenario) -> bool:
        ranks = scenario.ranks or ((0,) if scenario.name == "frightening" else ())
        return not ranks or self._place.rank in ranks

    def _from_files(self, step: int) -> list[Scenario]:
        folder = self._place.scenario_dir
        if folder is None:
            return []
        found: list[Scenario] = []
        for name in NAMES:
            try:
                keys = json.loads((folder / name).read_text(encoding="utf-8").strip() or "{}")
            except FileNotFoundError:
                self._begun.pop(name, None)
                continue
            except ValueError:  # half written: the next step reads it whole
                continue
            begun = self._begun.setdefault(name, step)
            found.append(_scenario(name, {"at": begun, **keys}))
        return found


def begin(folder: Path, name: str, **keys: Any) -> None:  # noqa: ANN401 -- JSON is any value
    """Have the scenario happen to the runs that watch this folder; the file appears whole.

    Raises:
        ValueError: There is no such scenario or key.
    """
    _scenario(name, keys)
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".{name}.new"
    new.write_text(json.dumps(keys), encoding="utf-8")
    new.replace(folder / name)


def end(folder: Path, name: str) -> None:
    """Take the scenario away."""
    (folder / name).unlink(missing_ok=True)


def allocate(step: int) -> None:
    """Ask for more memory than there is.

    Raises:
        OutOfMemoryError: Always.
    """
    raise OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is "
        f"free. Including non-PyTorch memory, this process has 78.08 GiB memory in use (iteration {step})."
    )


def wait(duration_s: float) -> None:
    """Do nothing for so long."""
    if duration_s > 0.0:
        time.sleep(duration_s)


def parsed(text: str) -> Scenario:
    """The scenario that a text names.

    Raises:
        ValueError: It names none, or a key makes no sense.
    """
    name, _, rest = text.partition(":")
    keys: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        keys[key] = [int(each) for each in value.split("+")] if key == "ranks" else float(value)
    return _scenario(name, keys)


def _scenario(name: str, keys: Mapping[str, Any]) -> Scenario:
    if name not in NAMES:
        raise ValueError(f"no scenario {name!r}; there are {', '.join(NAMES)}")
    if unknown := sorted(set(keys) - {"at", "ranks", "s", "factor", "code"}):
        raise ValueError(f"scenario {name} has no {', '.join(unknown)}")
    at = keys.get("at")
    return Scenario(
        name=name,
        at=None if at is None else int(at),
        ranks=tuple(int(each) for each in keys.get("ranks", ())),
        s=float(keys.get("s", _DEFAULT_PAUSE_S)),
        factor=float(keys.get("factor", _DEFAULT_FACTOR)),
        code=int(keys.get("code", 1)),
    )
