"""Settings of what people may ask Relance to do to jobs and nodes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from relance.domain.requests import RequestKind


class ActionSettings(BaseModel):
    """What people with the right to decide may ask for by name, from stage `approve` up.

    On is what can be undone and touches nothing that runs; off what cannot be undone, or needs more than an Operator.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cancel_jobs: bool = False
    """Whether a job may be cancelled: it ends for good, and nobody can undo that."""
    hold_jobs: bool = True
    """Whether a waiting job may be held, and a held one released."""
    reserve_nodes: bool = True
    """Whether a node may be quarantined by a maintenance reservation of its own, which the Operator right is enough
    for; what runs there goes on."""
    drain_nodes: bool = False
    """Whether a node may be drained, for which the controller's account has to be an Administrator."""

    @property
    def kinds(self) -> frozenset[RequestKind]:
        """The kinds that are on."""
        return frozenset(kind for kind in RequestKind if getattr(self, kind.value, False))
