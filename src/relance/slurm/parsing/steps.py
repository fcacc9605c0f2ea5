"""Living steps from `squeue --steps`."""

from __future__ import annotations

import re

from relance.slurm.hostlists import expand
from relance.slurm.parsing import values
from relance.slurm.parsing.rows import read_rows
from relance.slurm.records import SlurmStep

STEP_COLUMNS = ("%i", "%u", "%S", "%N", "%j")
"""Columns of `squeue --steps -o`: id, user, start, nodes, name."""

_STEP = re.compile(r"(\d+(?:_\d+|\+\d+)?)\.([A-Za-z0-9_+-]+)\Z", re.ASCII)
_PENDING_STEP = "TBD"


def parse_steps(output: bytes, *, mark: str) -> tuple[SlurmStep, ...]:
    """All steps of one answer; an empty tuple only for a whole table that has no row.

    Raises:
        UnreadableError: Cut off, mangled, or another table.
    """
    titles, rows = read_rows(output, mark=mark, first_title="STEPID")
    if len(titles) != len(STEP_COLUMNS):
        raise values.unreadable("the table of steps", titles)
    return tuple(_step(row) for row in rows)


def _step(row: tuple[str, ...]) -> SlurmStep:
    shown, user, started, nodes, name = row
    match = _STEP.match(shown)
    if match is None or not user:
        raise values.unreadable("a step", row)
    return SlurmStep(
        job_id=match[1],
        step_id=match[2],
        name=name,
        user=user,
        state="PENDING" if match[2] == _PENDING_STEP else None,
        started_at=values.shown_moment(started, "a step's start"),
        nodes=expand(nodes),
    )
