"""How states look to people: one of five tones, and a sign beside it, so that nothing is said by colour alone."""

from __future__ import annotations

from relance.domain.advice import Answer
from relance.domain.events import IncidentEnd
from relance.domain.incidents import IncidentState
from relance.domain.stages import Stage
from relance.domain.views import JobState, NodeState

GOOD, BUSY, WARN, BAD, QUIET = "good", "busy", "warn", "bad", "quiet"

_TONES: dict[object, str] = {
    Stage.OFF: QUIET,
    Stage.OBSERVE: QUIET,
    Stage.APPROVE: BUSY,
    Stage.ACT: GOOD,
    Answer.YES: GOOD,
    Answer.NO: BAD,
    Answer.UNKNOWN: WARN,
    IncidentEnd.RECOVERED: GOOD,
    IncidentEnd.RELAPSED: BAD,
    IncidentEnd.RUNNING_UNPROVEN: WARN,
    IncidentEnd.STOPPED: BAD,
    IncidentEnd.LEFT: QUIET,
    IncidentEnd.JOB_ENDED: QUIET,
    IncidentState.OPEN: WARN,
    IncidentState.JUDGED: WARN,
    IncidentState.ADVISED: WARN,
    IncidentState.ACTING: BUSY,
    IncidentState.UNSETTLED: BAD,
    IncidentState.SETTLED: BUSY,
    IncidentState.RUNNING: BUSY,
    IncidentState.CLOSED: QUIET,
    JobState.RUNNING: GOOD,
    JobState.PENDING: BUSY,
    JobState.CONFIGURING: BUSY,
    JobState.COMPLETED: QUIET,
    JobState.CANCELLED: QUIET,
    JobState.COMPLETING: BUSY,
    JobState.REQUEUED: BUSY,
    JobState.SUSPENDED: WARN,
    JobState.PREEMPTED: QUIET,
    JobState.UNKNOWN: WARN,
    NodeState.IDLE: GOOD,
    NodeState.ALLOCATED: GOOD,
    NodeState.MAINTENANCE: QUIET,
    NodeState.DRAINED: WARN,
    NodeState.DOWN: BAD,
    NodeState.UNKNOWN: WARN,
}
_UNKNOWN = frozenset({Answer.UNKNOWN, JobState.UNKNOWN, NodeState.UNKNOWN})
_GLYPHS = {GOOD: "✓", BUSY: "…", WARN: "!", BAD: "✗", QUIET: "·"}


def tone(state: object) -> str:
    """The tone of a state; a failed job's state is bad like any that is not listed."""
    return _TONES.get(state, BAD)


def glyph(state: object) -> str:
    """The sign of a state's tone; what is unknown is asked."""
    return "?" if state in _UNKNOWN else _GLYPHS[tone(state)]
