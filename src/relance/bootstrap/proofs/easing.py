"""What is missing in one source and comes by another is no reason to call a site unfit. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from relance.bootstrap.proofs.rows import Level, Row
from relance.config.sources import LogStoreSettings

_ELSEWHERE = "; another source gives it"


def eased(rows: Sequence[Row], stores: Sequence[LogStoreSettings], jobs: Collection[str]) -> tuple[Row, ...]:
    """The rows, in which some that are red are yellow, because another source makes up for them.

    Steps of a job count from whatever source they come. A store that has kernel lines need not have those of jobs, if
    these come from elsewhere.
    """
    with_steps = {row.name for row in rows if row.name.startswith("progress of ") and _tells_steps(row)}
    arrived = {
        job
        for job in jobs
        if any(row.level is Level.OK and row.name in (f"lines of {job}", f"logs of {job}") for row in rows)
    }
    spared: set[tuple[str | None, str]] = {(None, name) for name in with_steps}
    for settings in stores:
        has_kernel = any(
            row.source == settings.called and row.name == "kernel lines" and row.level is Level.OK for row in rows
        )
        if has_kernel and jobs and arrived == set(jobs):
            spared |= {(settings.called, f"lines of {job}") for job in jobs}
            spared.add((settings.called, f"label {settings.job_label}"))
    return tuple(_ease(row) if {(None, row.name), (row.source, row.name)} & spared else row for row in rows)


def _tells_steps(row: Row) -> bool:
    """Whether a row of progress has steps, those of a learned format too, which is yellow."""
    return row.level is Level.OK or row.read[:1].isdigit()


def _ease(row: Row) -> Row:
    return row if row.level is not Level.BAD else replace(row, level=Level.WARN, means=row.means + _ELSEWHERE)
