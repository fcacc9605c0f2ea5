"""Standstill: in finished logs, an output that ended long before the lines of others about the same job did.

A log that simply ends says nothing: it may have been cut there. But where an agent beside the program still tells of it
long after its last line, and nothing says that it failed or finished, it stood still. A program that writes is alive
though it makes no step: it evaluates, loads, waits for a service. The scheduler's logs tell of all jobs and go on.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from relance.domain.findings import Certainty, Finding, FindingKind
from relance.domain.keys import AttemptKey, stable_id
from relance.domain.progress import Phase, Progress

LEAST = timedelta(minutes=10)
"""Below this it may be any pause (design 8: with nothing but the log, long)."""
_MEDIANS = 20.0
_PAUSES = 3.0


def standstill_of(
    attempt: AttemptKey, progress: Progress, spoke_at: datetime | None, told_at: datetime | None
) -> Finding | None:
    """The finding of a hang, if the program's last step, and its last line (`spoke_at`), are long before `told_at`.

    That is the last line of an agent beside it.
    """
    last = progress.step_at
    if last is None or told_at is None or progress.phase in (Phase.ENDING, Phase.SAVING):
        return None
    limit_s = max(
        LEAST.total_seconds(), _MEDIANS * (progress.median_step_s or 0.0), _PAUSES * (progress.longest_pause_s or 0.0)
    )
    silent_s = (told_at - max(last, spoke_at or last)).total_seconds()
    if silent_s < limit_s:
        return None
    return Finding(
        id=stable_id("f", attempt, "standstill", str(last)),
        attempt=attempt,
        detector="standstill",
        kind=FindingKind.HANG,
        certainty=Certainty.CONFIRMED,
        symptom="hang_no_progress",
        summary=f"nothing for {silent_s / 60:.0f} minutes after step {progress.step}, while others told of the job",
        first_evidence_at=last,
        symptom_at=last,
        progress=progress,
    )
