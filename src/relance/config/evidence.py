"""Settings of collecting evidence of suspected hangs by a site's command."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from relance.controlling.evidence_commands import PLACEHOLDERS, unknown_placeholders
from relance.domain.collecting import LIMIT_S


class EvidenceSettings(BaseModel):
    """A site's command that looks into a job of which a hang is suspected, such as stacks by py-spy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: tuple[str, ...] = Field(default=(), max_length=200)
    """The command (argument list, no shell) with `{job_id}`, `{nodes}` (with commas between), `{node_count}`, `{user}`
    in it; empty: none is shown or run. It runs as the controller's user, on its host."""
    collect: bool = False
    """Whether it is run, at stage `act` alone; else it is only shown."""
    limit_s: float = Field(default=LIMIT_S, ge=5, le=LIMIT_S)
    """How long it may take; then its whole process group is ended."""

    @field_validator("command")
    @classmethod
    def _names_what_is_known(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        if unknown := unknown_placeholders(command):
            named = ", ".join(f"{{{name}}}" for name in unknown)
            message = f"{named} is not known; there are {known}; a shell's own is written ${{name}}"
            raise ValueError(message)
        if command and not command[0].strip():
            message = "its first word should be a program"
            raise ValueError(message)
        if command and not any("{job_id}" in word or "{nodes}" in word for word in command):
            message = "should have {job_id} or {nodes} in it: else it does not know of which job"
            raise ValueError(message)
        return command

    @model_validator(mode="after")
    def _has_something_to_run(self) -> EvidenceSettings:
        if self.collect and not self.command:
            message = "collect needs a command"
            raise ValueError(message)
        return self
