"""Events of collecting evidence, and what they come to in the incident. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from relance.domain.advice import Effect
from relance.domain.findings import RuleHit
from relance.domain.keys import AttemptKey
from relance.domain.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePrepared:
    """The exact command that would collect evidence of a suspected hang; all there is unless the site switched it on.

    `switched_on` is whether the controller may run it; `finding_id` is the finding of the silence that it is for.
    """

    incident_id: str
    key: str
    finding_id: str
    attempt: AttemptKey
    effect: Effect
    stage: Stage
    switched_on: bool
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceStarted:
    """A controller was let run the command, once for this silence; it notes it in its ledger and runs it."""

    incident_id: str
    key: str
    attempt: AttemptKey
    effect: Effect
    holder: str
    lease_epoch: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceEnded:
    """What `EvidenceCollected` and `EvidenceFailed` say.

    `size_bytes` is what both outputs came to, `took_s` how long the command ran; `hits` are what they show; `notes` say
    in words what was read, and what was not. `exit_code` None: it never ran, or was ended by the controller.
    """

    incident_id: str
    key: str
    attempt: AttemptKey
    exit_code: int | None
    size_bytes: int
    took_s: float
    reason: str
    hits: tuple[RuleHit, ...]
    notes: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCollected(EvidenceEnded):
    """The command ended well; its outputs are kept beside the incident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFailed(EvidenceEnded):
    """It failed, was ended at its limit, or nobody knows what came of it; what it wrote until then counts too."""


EvidenceEvent = EvidencePrepared | EvidenceStarted | EvidenceCollected | EvidenceFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Collecting:
    """The evidence of one silence as an incident knows it."""

    key: str
    finding_id: str = ""
    prepared_at: datetime | None = None
    shown: tuple[str, ...] = ()
    """Keys `stage/switched on/effect digest` of what was shown."""
    effect: Effect | None = None
    """The newest command that was shown."""
    switched_on: bool = False
    started_at: datetime | None = None
    holder: str = ""
    ended_at: datetime | None = None
    is_collected: bool = False
    reason: str = ""
    hits: tuple[RuleHit, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it was begun, and nobody has told yet what came of it."""
        return self.started_at is not None and self.ended_at is None


def shown_key(event: EvidencePrepared) -> str:
    """What tells one showing from another."""
    return f"{event.stage.value}/{'on' if event.switched_on else 'off'}/{event.effect.digest}"


def with_evidence(known: tuple[Collecting, ...], event: EvidenceEvent) -> tuple[Collecting, ...]:
    """What is known of an incident's evidence after one more event."""
    before = next((item for item in known if item.key == event.key), Collecting(key=event.key))
    after = _after(before, event)
    if any(item.key == event.key for item in known):
        return tuple(after if item.key == event.key else item for item in known)
    return (*known, after)


def _after(before: Collecting, event: EvidenceEvent) -> Collecting:
    match event:
        case EvidencePrepared():
            return replace(
                before,
                finding_id=event.finding_id,
                prepared_at=before.prepared_at or event.at,
                shown=(*before.shown, shown_key(event)),
                effect=event.effect,
                switched_on=event.switched_on,
            )
        case EvidenceStarted():
            return replace(before, effect=event.effect, started_at=event.at, holder=event.holder)
        case EvidenceCollected() | EvidenceFailed():
            if before.ended_at is not None:
                return before
            return replace(
                before,
                ended_at=event.at,
                is_collected=isinstance(event, EvidenceCollected),
                reason=event.reason,
                hits=event.hits,
            )
