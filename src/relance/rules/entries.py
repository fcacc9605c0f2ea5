"""What a rule file has, field by field, checked as it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Sign

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*([-_][a-z0-9]+)*$", max_length=60)]
Text = Annotated[str, Field(min_length=1, max_length=400)]
Examples = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=4000)], ...], Field(min_length=1)]
Weight = Annotated[float, Field(ge=0.0, le=1.0)]


class BesideEntry(BaseModel):
    """What a hit becomes beside others, as a file has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: Annotated[tuple[Annotated[str, Field(pattern=r"^[a-z0-9*_-]+$")], ...], Field(min_length=1)]
    role: Role


class RuleEntry(BaseModel):
    """One rule as a file has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    title: Text
    pattern: Annotated[str, Field(min_length=1)]
    symptom: Name
    domain: FaultDomain
    role: Role
    suspect: SuspectKind
    restart: RestartHint
    weight: Weight
    scopes: Annotated[frozenset[Scope], Field(min_length=1)]
    source: Text
    hit: Examples
    miss: Examples
    signs: frozenset[Sign] = frozenset()
    ignore_case: bool = False
    fallback: bool = False
    traceback: bool = False
    table: bool = False
    beside: tuple[BesideEntry, ...] = ()
    details: Mapping[Name, Text] = Field(default_factory=dict)


class DerivedEntry(BaseModel):
    """One derived rule as a file has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    title: Text
    symptom: Name
    domain: FaultDomain
    role: Role
    suspect: SuspectKind
    restart: RestartHint
    weight: Weight
    scope: Scope
    source: Text
    signs: frozenset[Sign] = frozenset()


class FileEntry(BaseModel):
    """The top of a rule file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    group: Name
    about: Text = "Rules of this site."
    rules: tuple[Any, ...] = ()
    derived: tuple[Any, ...] = ()
    weights: Mapping[str, Weight] = Field(default_factory=dict)
    off: tuple[str, ...] = ()
