"""What people send, checked on the way in."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from relance.domain.stages import EndRunning, Stage
from relance.ports.tokens import TokenRole

Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^/\x00-\x1f\x7f]+$")]
Words = Annotated[str, Field(max_length=2000)]
Why = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Seconds = Annotated[float, Field(gt=0, le=31_536_000)]


class _Strict(BaseModel):
    """A body; a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class WhoIsAsking(_Strict):
    """Whose token this is."""

    name: str
    role: TokenRole


class StageOrder(_Strict):
    """Set the stage of a cluster (none: of every known cluster) or of one of its partitions.

    `end_running` left out keeps the consents that are there.
    """

    stage: Stage
    cluster: Name | None = None
    partition: Name | None = None
    end_running: frozenset[EndRunning] | None = None


class SwitchOrder(_Strict):
    """Set a ceiling for one job, for good or for some seconds; a null stage lifts it."""

    stage: Stage | None
    for_s: Seconds | None = None
    reason: Words = ""


class Disagreement(_Strict):
    """Say that the verdict on a job is wrong: no further action on this job."""

    text: Annotated[str, Field(min_length=1, max_length=2000)]


class Approval(_Strict):
    """Yes to one generation of advice and to the effect that was shown."""

    generation: Annotated[int, Field(ge=1)]
    effect_digest: Annotated[str, Field(min_length=1, max_length=200)]
    for_s: Seconds | None = None


class Denial(_Strict):
    """No to one generation of advice."""

    generation: Annotated[int, Field(ge=1)]
    reason: Words = ""


class JobRequest(_Strict):
    """Ask for something to be done to a job; the reason is told to its owner."""

    verb: Literal["cancel", "hold", "release", "disarm"]
    reason: Why
    restart_count: Annotated[int, Field(ge=0)] | None = None
    """That of the attempt that the person was shown: another one is not touched."""


class NodeRequest(_Strict):
    """Ask for a node to be kept out for some seconds, or to be returned."""

    verb: Literal["quarantine", "drain", "return"]
    reason: Why
    for_s: Seconds | None = None


class StormEnd(_Strict):
    """Let restarts come back after a storm."""

    reason: Words = ""
    storm_id: Annotated[str, Field(max_length=100)] = ""
    """Which one, or a unique beginning of its id; needed where several are open."""


class TokenOrder(_Strict):
    """A token for a person or an agent."""

    name: Name
    role: TokenRole


class NewToken(_Strict):
    """A token that was just made; the secret is shown this once."""

    name: str
    role: TokenRole
    secret: str


class TokenShown(_Strict):
    """A token as listed."""

    name: str
    role: TokenRole
    created_at: datetime


class OrdersQuestion(_Strict):
    """A controller that takes or renews its lease and asks for its orders."""

    cluster: Name
    holder: Annotated[str, Field(min_length=1, max_length=200)]
