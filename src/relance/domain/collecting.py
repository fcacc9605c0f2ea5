"""Evidence of a suspected hang by a site's command: what is ordered, claimed, and what came of it (design 8).

Stacks, NCCL RAS and dumps are not read from outside: the command enters the job and may stop its ranks for moments. So
it changes the world, and has an order, a claim and a journal of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Effect
from relance.domain.findings import Certainty, Finding, FindingKind
from relance.domain.keys import AttemptKey
from relance.domain.stages import EffectiveStage

LIMIT_S = 20.0
"""The longest that a site's command may take."""
MOST_AN_ATTEMPT = 3
"""So many silences of one attempt are looked into."""
APART_S = 60.0
"""At least so long lies between two of them."""
OUTPUT_BYTES = 2 * 1024 * 1024
"""So much of each of a command's two outputs is kept: a stack of 30 frames is some 3 KiB, so this is 700 ranks."""
EVIDENCE_STEP = "relance-evidence"
"""The name under which a command that goes into a job runs there, so that nobody takes it for a person at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """One silence of an attempt, as its hang detector told it.

    `steps_seen` is how many steps it had made by then, `saved_at` when its newest checkpoint known by then was durable:
    that may be after `symptom_at`, which a store that is told of lines late puts before the last of them.
    """

    finding_id: str
    attempt: AttemptKey
    certainty: Certainty
    symptom_at: datetime
    steps_seen: int | None = None
    saved_at: datetime | None = None
    told_at: datetime | None = None
    """When the finding was stored, where that is known."""


def silence_of(finding: Finding, told_at: datetime | None = None) -> Silence | None:
    """The silence that a finding tells of, stored at `told_at`; None for any other kind of finding."""
    if finding.kind is not FindingKind.HANG:
        return None
    return Silence(
        finding_id=finding.id,
        attempt=finding.attempt,
        certainty=finding.certainty,
        symptom_at=finding.symptom_at,
        steps_seen=finding.progress.steps_seen if finding.progress is not None else None,
        saved_at=finding.progress.checkpoint_durable_at if finding.progress is not None else None,
        told_at=told_at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceOrder:
    """A suspected hang of which evidence may be wanted. The command is the controller's: it has the site's settings.

    `key` is the same for the same silence of the same attempt, and begun at most once. `why_not` says why the command
    may be shown and not run, empty when nothing speaks against it. `prepared` are the digests of what was shown at this
    stage. With `started_at` it was begun by `started_by`, and nobody has told yet what came of it.
    """

    key: str
    incident_id: str
    finding_id: str
    attempt: AttemptKey
    raw_id: str
    stage: EffectiveStage
    why_not: str = ""
    prepared: tuple[str, ...] = ()
    started_by: str = ""
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceClaim:
    """A controller's wish to run a site's command now: for which silence, by whom, under which lease, and what."""

    key: str
    incident_id: str
    attempt: AttemptKey
    cluster: str
    holder: str
    lease_epoch: int
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What came of a command. `exit_code` None: it never ran, or was ended here; `gave_up` says why.

    `took_s` is how long it ran, in seconds. The outputs hold at most `OUTPUT_BYTES` each.
    """

    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    took_s: float = 0.0
    gave_up: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReport:
    """What a controller tells of one order; told again it changes nothing.

    With `shown` it tells what would be run, and by `switched_on` whether the site lets it be run; with `collected` it
    tells what came of the run, its outputs masked.
    """

    key: str
    incident_id: str
    finding_id: str
    attempt: AttemptKey
    at: datetime
    shown: Effect | None = None
    switched_on: bool = False
    collected: Collected | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionBegan:
    """A line of the ledger: the site's command is about to be run for this silence."""

    key: str
    incident_id: str
    finding_id: str
    attempt: AttemptKey
    effect: Effect
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionEnded:
    """A line of the ledger: what came of that command, but for its outputs. `reason` is empty when it ended well."""

    key: str
    exit_code: int | None
    size_bytes: int
    took_s: float
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReported:
    """A line of the ledger: the server has what came of it."""

    key: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRecord:
    """A command for evidence as the ledger tells it, until the server has what came of it."""

    began: CollectionBegan
    ended: CollectionEnded | None = None
