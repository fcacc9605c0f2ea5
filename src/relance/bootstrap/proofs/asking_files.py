"""Opens a job's log files as the watcher would, from this process's account, and says what was seen."""

from __future__ import annotations

from dataclasses import replace

from relance.bootstrap.proofs.asking_logs import failure_of
from relance.bootstrap.proofs.facts import Failure, FileFacts, WantedJob
from relance.bootstrap.proofs.steps import steps_of
from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.domain.views import Assignment
from relance.ports.clocks import Clock
from relance.ports.sources import Source
from relance.progress import PatternError

TAIL_BYTES = 256 * 1024
_LOOK_S = 3.0
"""How long files are read before what came is judged."""
_PAUSE_S = 0.1


async def ask_files(source: Source, job: WantedJob, assignment: Assignment, clock: Clock) -> FileFacts:
    """What the source sees of one job; it follows this job alone for a moment."""
    key, kernel = assignment.attempt, frozenset(path for _, path in assignment.kernel_logs)
    found = FileFacts(job=job, log_paths=assignment.log_paths, kernel_paths=kernel)
    if not assignment.log_paths and not kernel:
        return found
    try:
        source.assign((assignment,), {})
        end_s = clock.monotonic() + _LOOK_S
        reading = await source.read(key)
        while reading.seen is None and not reading.blocks and clock.monotonic() < end_s:
            await clock.sleep(_PAUSE_S)
            reading = await source.read(key)
        tails = [tail for tail in await source.tails(key, TAIL_BYTES) if tail.file not in kernel]
        blocks = [
            LogBlock(
                file=tail.file, offset=tail.start_offset, data=_from_a_whole_line(tail.data, tail.start_offset),
                scope=Scope.APPLICATION, read_at=clock.now(),
            )
            for tail in tails
        ]  # fmt: skip
        lines = sum(block.data.count(b"\n") for block in blocks)
        steps = steps_of([block for block in blocks if block.data], job.progress_pattern, clock.now())
        return replace(found, coverage=reading.coverage, progress=steps, lines=lines)
    except PatternError as error:
        return replace(found, failure=Failure(why=str(error), remedy=error.remedy))
    except Exception as error:  # noqa: BLE001 - whatever lies there, it is a row of the table and no traceback
        return replace(found, failure=failure_of(error))
    finally:
        source.assign((), {})


def _from_a_whole_line(data: bytes, start: int) -> bytes:
    """A piece from the middle of a file without the rest of a line at its beginning."""
    return data if start == 0 else data.partition(b"\n")[2]
