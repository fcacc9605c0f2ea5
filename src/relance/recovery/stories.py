"""The story of a job and of an incident, as typed values that CLI, API and console show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Advice, Effect, Guard
from relance.domain.clocks import Stamp
from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Finding, RuleHit
from relance.domain.fleet import Storm
from relance.domain.incidents import Action, Approval
from relance.domain.records import AttemptRecord
from relance.domain.stages import EffectiveStage
from relance.domain.verdicts import Opinion, Verdict
from relance.recovery.kept_logs import KeptPiece
from relance.recovery.rows import IncidentItem, JobRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A line that shows something, with where it stands."""

    text: str
    file: str = ""
    line: int | None = None
    offset: int = 0
    node: str | None = None
    rank: int | None = None
    device: str | None = None
    at: datetime | None = None
    """The line's own time."""
    rule: str = ""
    symptom: str = ""
    role: str = ""
    scope: str = ""
    """The kind of log that it is in."""

    @property
    def place(self) -> str:
        """Where it stands, in one phrase: file and line, rank, node, device."""
        of_metrics = self.scope == Scope.METRICS.value  # what it is read from has neither lines nor bytes
        byte = "" if of_metrics else f" (byte {self.offset})"
        where = f"{self.file}:{self.line}" if self.line is not None else f"{self.file}{byte}"
        parts = [where if self.file else ""]
        parts.append(f"rank {self.rank}" if self.rank is not None else "")
        parts += [self.node or "", self.device or ""]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiveAnswers:
    """What a researcher asks in the morning (operators.md 2a), each answer one sentence."""

    running: str
    """Is it running?"""
    from_step: str
    """From which step?"""
    lost: str
    """What did I lose?"""
    fault: str
    """Whose fault was it?"""
    next: str
    """What happens next?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStory:
    """Everything about one job. `alarm` is set when the new attempt did not resume from the last checkpoint."""

    job: JobRow
    answers: FiveAnswers
    happened: str = ""
    """What the newest verdict says; empty where there is none."""
    opinions: tuple[Opinion, ...] = ()
    """What outside providers said about it."""
    quote: Quote | None
    """The first line that shows whose fault it was."""
    alarm: str
    notes: tuple[str, ...]
    """What was clipped, ignored or broken in the job's own settings, and what people said or switched."""
    storm: Storm | None = None
    """The incident that the job shares with others, and that holds it."""
    closed: tuple[str, ...] = ()
    """The gates that keep the advice in force from being carried out, each with when it opens by itself."""
    attempts: tuple[AttemptRecord, ...]
    incidents: tuple[IncidentItem, ...]
    """Newest first."""
    kept: tuple[KeptPiece, ...] = ()
    """The ends of its logs that were kept, so that a restart that empties them loses nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened in an incident, in the order of the history."""

    position: int
    at: datetime
    recorded_at: datetime
    event: str
    title: str
    detail: str
    who: str
    quotes: tuple[Quote, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MilestoneLine:
    """One milestone of an incident. `since_symptom_s` is None where either time is not known."""

    name: str
    wording: str
    stamp: Stamp | None
    since_symptom_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentStory:
    """Everything about one incident."""

    incident: IncidentItem
    job: JobRow
    happened: str = ""
    """What the verdict says; empty before it."""
    fault: str
    """Whose fault it is, in one sentence; empty before the verdict."""
    next: str
    """What happens next, in one sentence."""
    verdict: Verdict | None
    quote: Quote | None
    evidence: tuple[Quote, ...]
    findings: tuple[Finding, ...]
    coverage: tuple[Coverage, ...]
    advice: Advice | None
    storm: Storm | None = None
    """The incident that this one shares with other jobs: it holds the advice."""
    gates: tuple[Guard, ...]
    effect: Effect | None
    commands: tuple[str, ...]
    """The exact commands, quoted as a shell would need them; for reading, never run as text."""
    approval: Approval | None
    not_approvable: str
    """Why a person cannot approve the advice now; empty when one can."""
    action: Action | None
    stage: EffectiveStage
    milestones: tuple[MilestoneLine, ...]
    entries: tuple[Entry, ...]
    kept: tuple[KeptPiece, ...] = ()
    """What was kept of the attempt's logs."""
    by_hand: tuple[str, ...] = ()
    """Ready commands for a person who wants to keep a node out; Relance does not do it by itself."""
    position: int
    """The newest position of the story's events: an update is due when the history has one beyond it."""


def quote_of(hit: RuleHit) -> Quote:
    """A rule's hit as a quote."""
    return Quote(
        text=hit.excerpt,
        file=hit.file,
        line=hit.line,
        offset=hit.offset,
        node=hit.node,
        rank=hit.rank,
        device=hit.device,
        at=hit.at,
        rule=hit.rule,
        symptom=hit.symptom,
        role=hit.role.value,
        scope=hit.scope.value,
    )
