"""The same scenario as four releases of Slurm printed it (`recordings/`), and jobs to build tests from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relance.slurm.records import SlurmJob

RELEASES = ("22.05", "23.11", "24.11", "25.11")
SCENES = ("1-mixed", "2-node-lost-and-time-limit", "3-released-and-array-held")
MARK = "~0123456789abcdef~"
_FOLDER = Path(__file__).parent / "recordings"


def recorded(release: str, *names: str) -> bytes:
    """A recorded file of one release."""
    return _FOLDER.joinpath(f"slurm-{release}", *names).read_bytes()


def table(*rows: tuple[str, ...]) -> bytes:
    """A table as squeue and sacct print it when each column ends in `MARK`."""
    return "".join("".join(f"{cell}{MARK}" for cell in row) + "\n" for row in rows).encode()


def job_with(**fields: Any) -> SlurmJob:  # noqa: ANN401 - fields of many types
    """A running job with the given differences."""
    plain: dict[str, Any] = {
        "job_id": 12, "name": "llm", "uid": 1001, "user": "ada", "states": ("RUNNING",), "is_batch": True,
        "work_dir": "/home/ada/run", "nodes": ("gpu001", "gpu002"), "batch_host": "gpu001",
    }  # fmt: skip
    return SlurmJob(**(plain | fields))
