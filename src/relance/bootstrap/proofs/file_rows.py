"""What it means what the file source saw. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from relance.bootstrap.proofs.facts import FileFacts
from relance.bootstrap.proofs.log_rows import YOUNG_S, progress_row
from relance.bootstrap.proofs.rows import Level, Row
from relance.domain.findings import Coverage, Sight
from relance.recovery import wordings

_REMEDIES = {
    Sight.MISSING: "see that this host mounts it and the path is right; `relance check JOB` says what the server has",
    Sight.REFUSED: "give this account's group access, or add its folder to log_roots in the settings",
    Sight.UNKNOWN: "see that the file system answers",
    Sight.LAGGING: "see that the file system's server answers; a watcher goes on with other files meanwhile",
}
_SHOWN = 3


def file_rows(source: str, found: FileFacts, now: datetime) -> tuple[Row, ...]:
    """The rows of one job's files."""
    name = f"logs of {found.job.raw_id}"
    if found.failure is not None:
        return (
            Row(
                source=source, name=name, level=Level.BAD, read="-", means=found.failure.why,
                remedy=found.failure.remedy or "ask again",
            ),
        )  # fmt: skip
    if not found.log_paths and not found.kernel_paths:
        text = "the scheduler tells of no log of this job, so nothing of it is read"
        remedy = "name its logs in the job's own settings (`logs`), or ship them into a store"
        level = Level.BAD if found.job.is_known and found.job.is_running else Level.WARN
        return (Row(source=source, name=name, level=level, read="none", means=text, remedy=remedy),)
    own = [each for each in found.coverage if each.source not in found.kernel_paths]
    rows = [*_logs(source, name, found, own, now)]
    kernel = [each for each in found.coverage if each.source in found.kernel_paths]
    if kernel:
        rows += _logs(source, f"kernel logs of {found.job.raw_id}", found, kernel, now)
    if any(_is_read(each) for each in own):
        rows.append(progress_row(source, found.job, found.progress, found.lines, now))
    return tuple(rows)


def _logs(source: str, name: str, found: FileFacts, coverage: list[Coverage], now: datetime) -> Iterator[Row]:
    read = [each for each in coverage if _is_read(each)]
    wrong = [each for each in coverage if each not in read]
    if read:
        files = ", ".join(each.source for each in read[:_SHOWN])
        more = f" and {len(read) - _SHOWN} more" if len(read) > _SHOWN else ""
        text = "read as the watcher reads them, by this account"
        yield Row(source=source, name=name, level=Level.OK, read=files + more, means=text)
    for each in wrong[:_SHOWN]:
        started = found.job.started_at
        is_young = started is not None and (now - started).total_seconds() < YOUNG_S
        may_come = each.sight is Sight.MISSING and (is_young or not found.job.is_running)
        level = Level.WARN if may_come or read else Level.BAD
        text = f"{wordings.name(each.sight.value)}: {each.note}" if each.note else wordings.name(each.sight.value)
        yield Row(
            source=source, name=name, level=level, read=each.source, means=text, remedy=_REMEDIES.get(each.sight, "")
        )  # fmt: skip
    if not coverage:
        text = "no file is there yet"
        yield Row(
            source=source, name=name, level=Level.WARN, read=", ".join(found.log_paths[:_SHOWN]), means=text,
            remedy=_REMEDIES[Sight.MISSING],
        )  # fmt: skip


def _is_read(coverage: Coverage) -> bool:
    """Whether a file is read, if behind; one on a file system that does not answer is not."""
    return coverage.sight is Sight.SEEN or (coverage.sight is Sight.LAGGING and "does not answer" not in coverage.note)
