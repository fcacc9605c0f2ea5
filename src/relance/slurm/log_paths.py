r"""Where a job's output goes: Slurm's file name patterns to paths or globs. Pure.

Seen on 22.05.8 for batch scripts: a width counts for numbers only and stops at 10; an unknown pattern and a lone `%`
stay as they are; one backslash anywhere switches all patterns off; `%N` is the first host's short name, `%n` and `%t`
are 0, `%s` is "batch", `%J` is the plain id, and `%a` outside an array is 4294967294. `%b` is unknown to 22.05 and
known to later releases (manual of sbatch), so it becomes a glob that fits both; so does `%r` (25.11) where a user names
it, as the output of the batch script is shown expanded by the releases that know it.

What the commands show differs: `squeue` and the JSON of 22.05 show the pattern, `scontrol` of 22.05 replaces only %j,
%A, %a, %u and %x, 23.11 and 24.11 show paths, 25.11 both (see `SlurmJob.has_expanded_paths`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from relance.slurm.records import SlurmJob

NO_ARRAY_TASK = 4_294_967_294
"""What Slurm writes for `%a` of a job that is no array task (its NO_VAL)."""

_PATTERN = re.compile(r"%(\d*)([A-Za-z%])", re.ASCII)
_MAX_WIDTH = 10
_GLOB_SIGNS = re.compile(r"([*?\[])")
_STEP_PATTERNS = frozenset("JNnst")
"""Patterns whose value differs from step to step, rank to rank or node to node."""
_RESTARTS = "r"
"""How often the job was restarted: 25.11 knows it (manual of sbatch), the releases before leave it as it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPath:
    """One place of output: an absolute `path`, with `is_glob` one in which `*` and `?` stand for what differs.

    `path` None: nothing is written that could be read, and `problem` says why in a sentence.
    """

    path: str | None
    is_glob: bool = False
    problem: str | None = None


def batch_output(job: SlurmJob) -> LogPath:
    """Where the batch script and, unless told otherwise, all steps write."""
    default = "slurm-%j.out" if job.array_job_id is None else "slurm-%A_%a.out"
    return _resolve(job, job.stdout, default)


def batch_errors(job: SlurmJob) -> LogPath:
    """Where the batch script's standard error goes: to its output unless told otherwise."""
    return batch_output(job) if job.stderr is None else _resolve(job, job.stderr, job.stderr)


def step_output(job: SlurmJob, pattern: str) -> LogPath:
    """Where steps write that were started with `srun --output=PATTERN`: what differs between ranks becomes `*`.

    A name that a user gave outright, such as a job's log setting, is resolved alike.
    """
    return _expand(job, pattern, of_step=True)


def _resolve(job: SlurmJob, shown: str | None, default: str) -> LogPath:
    if job.is_batch is False:
        return LogPath(path=None, problem="The job has no batch script: its output goes to a terminal.")
    if shown is None:
        return _expand(job, default, of_step=False)
    if job.has_expanded_paths:
        return _placed(job, shown, is_glob=False, pattern=shown)
    return _expand(job, shown, of_step=False)


def _expand(job: SlurmJob, pattern: str, *, of_step: bool) -> LogPath:
    if "\\" in pattern:
        return _placed(job, re.sub(r"\\(.)", r"\1", pattern), is_glob=False, pattern=pattern)
    parts: list[tuple[str, bool]] = []
    end = 0
    for match in _PATTERN.finditer(pattern):
        parts.append((pattern[end : match.start()], False))
        end = match.end()
        value, is_glob = _value(job, match[2], of_step=of_step)
        if value is None:
            if is_glob:
                return _unresolved(pattern, f"the scheduler does not show what %{match[2]} stands for")
            value = match[0]
        elif not is_glob and value.isdigit() and match[2] not in "uxN":
            value = value.zfill(min(int(match[1] or 0), _MAX_WIDTH))
        parts.append((value, is_glob))
    parts.append((pattern[end:], False))
    if any(is_glob for _, is_glob in parts):
        text = "".join(value if is_glob else _GLOB_SIGNS.sub(r"[\1]", value) for value, is_glob in parts)
        return _placed(job, text, is_glob=True, pattern=pattern)
    return _placed(job, "".join(value for value, _ in parts), is_glob=False, pattern=pattern)


def _value(job: SlurmJob, sign: str, *, of_step: bool) -> tuple[str | None, bool]:
    """What a pattern stands for, and whether that is a glob. None with True: not shown; with False: no pattern."""
    if sign in _STEP_PATTERNS:
        return _varying(job, sign, of_step=of_step)
    if sign == _RESTARTS and of_step:
        return "*", True
    task = job.array_task_id
    if sign in "ab" and job.array_job_id is not None and task is None:
        return None, True
    if sign == "b" or (sign == "x" and job.het_job_id is not None):
        # A heterogeneous job that gives itself no name writes to "(null)", whatever name it shows (seen: 22.05).
        return "*", True
    if sign == "u":
        return job.user, job.user is None
    plain = {
        "%": "%",
        "j": str(job.job_id),
        "A": str(job.array_job_id or job.job_id),
        "a": str(NO_ARRAY_TASK if task is None else task),
        "x": job.name,
    }
    return plain.get(sign), False


def _varying(job: SlurmJob, sign: str, *, of_step: bool) -> tuple[str | None, bool]:
    if of_step:
        return "*", True
    match sign:
        case "N":
            host = job.batch_host or (job.nodes[0] if job.nodes else None)
            return (None, True) if host is None else (host.partition(".")[0], False)
        case "s":
            return "batch", False
        case "J":
            return str(job.job_id), False
        case _:
            return "0", False


def _placed(job: SlurmJob, text: str, *, is_glob: bool, pattern: str) -> LogPath:
    """The path made absolute against the work directory; the dustbin is no place to read from."""
    if "\0" in text or not text:
        return _unresolved(pattern, "it is not a path")
    if text == "/dev/null":
        return LogPath(path=None, problem="The output is thrown away (/dev/null).")
    if text.startswith("/"):
        return LogPath(path=text, is_glob=is_glob)
    if job.work_dir is None or not job.work_dir.startswith("/"):
        return _unresolved(pattern, "the scheduler does not show the job's work directory")
    folder = _GLOB_SIGNS.sub(r"[\1]", job.work_dir) if is_glob else job.work_dir
    return LogPath(path=str(PurePosixPath(folder) / text), is_glob=is_glob)


def _unresolved(pattern: str, reason: str) -> LogPath:
    return LogPath(path=None, problem=f"Cannot resolve {pattern[:200]!r}: {reason}.")
