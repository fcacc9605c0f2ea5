"""Checkpoints of the trainer: whole or not there, and a file that names the newest, as Megatron-LM's."""

from __future__ import annotations

import json
import os
import shutil
import time
from array import array
from pathlib import Path

from relance.simulation.networks import Adam, checksum

TRACKER = "latest_checkpointed_iteration.txt"
_STATE = "model_optim_rng.json"
_KEPT = 3
"""Older ones are removed."""
_SLICES = 20
"""A slow save writes in so many pieces, so that its file grows meanwhile."""


class CheckpointDamaged(RuntimeError):
    """The checkpoint's weights are not those that were saved."""


def save(folder: Path, step: int, weights: array[float], optimizer: Adam, *, duration_s: float = 0.0) -> None:
    """Write a checkpoint and then make it the newest; a crash in between leaves the one before.

    Args:
        folder: Where all checkpoints lie.
        step: After which step.
        weights: The weights.
        optimizer: The optimizer's state.
        duration_s: How long it is to take, for slow file systems.

    Raises:
        OSError: It cannot be written.
    """
    state = {
        "step": step,
        "weights": weights.tolist(),
        "checksum": checksum(weights).hex(),
        "optimizer": {
            "steps": optimizer.steps,
            "first": optimizer.first.tolist(),
            "second": optimizer.second.tolist(),
        },
    }
    target = folder / _name(step)
    target.mkdir(parents=True, exist_ok=True)
    _write(target / _STATE, json.dumps(state).encode(), duration_s)
    _write(folder / TRACKER, str(step).encode())
    _remove_old(folder, step)


def load(folder: Path) -> tuple[int, array[float], Adam] | None:
    """The newest checkpoint's step, weights and optimizer; None if there is none.

    Raises:
        OSError: The newest one cannot be read.
        CheckpointDamaged: It is not what was saved.
    """
    try:
        step = int((folder / TRACKER).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    path = folder / _name(step) / _STATE
    state = json.loads(path.read_bytes())
    weights = array("d", state["weights"])
    if checksum(weights).hex() != state["checksum"]:
        raise CheckpointDamaged(f"{path}: checksum does not match")
    kept = state["optimizer"]
    optimizer = Adam(steps=kept["steps"], first=array("d", kept["first"]), second=array("d", kept["second"]))
    return step, weights, optimizer


def _name(step: int) -> str:
    return f"iter_{step:07d}"


def _write(path: Path, data: bytes, duration_s: float = 0.0) -> None:
    """Write to a new file, have it on the disk, then give it the name."""
    new = path.with_name(f"{path.name}.new")
    size = max(len(data) // _SLICES, 1) if duration_s > 0.0 else len(data)
    with new.open("wb") as file:
        for start in range(0, len(data), size):
            file.write(data[start : start + size])
            file.flush()
            time.sleep(duration_s / _SLICES)
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove_old(folder: Path, newest: int) -> None:
    steps = sorted(int(path.name.removeprefix("iter_")) for path in folder.glob("iter_*"))
    for step in [each for each in steps if each < newest][: -_KEPT + 1]:
        shutil.rmtree(folder / _name(step), ignore_errors=True)
