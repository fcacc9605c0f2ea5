"""Where a job's output lies, as paths and globs that the watcher follows. Pure."""

from __future__ import annotations

import glob

from relance.domain.views import Wish
from relance.slurm.log_paths import LogPath, batch_errors, batch_output, step_output
from relance.slurm.records import SlurmJob


def logs_of(job: SlurmJob, wish: Wish) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The places of a job's output and of what its owner named besides, and what could not be resolved, in words."""
    if job.is_batch is False and not wish.logs:
        return (), ("the job has no batch script: its output goes to a terminal",)
    found = [batch_output(job), batch_errors(job)] if job.is_batch is not False else []
    shown = [place for place in found if place.path is not None]
    # A file name that the owner gave is a glob already.
    named = [(step_output(job, each), True) for each in wish.logs]
    paths = [_pattern(place, is_glob=place.is_glob) for place in shown]
    paths += [_pattern(place, is_glob=is_glob) for place, is_glob in named if place.path is not None]
    notes = [place.problem for place in (*found, *(place for place, _ in named)) if place.problem]
    return tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(notes))


def _pattern(place: LogPath, *, is_glob: bool) -> str:
    path = place.path or ""
    return path if is_glob else glob.escape(path)
