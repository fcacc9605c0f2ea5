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


class KindEntry(BaseModel):
    """How hits of several codes are judged. `on_repeat` is what helps when the same comes again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    symptom: Name
    domain: FaultDomain
    role: Role
    suspect: SuspectKind
    restart: RestartHint
    weight: Weight
    signs: frozenset[Sign] = frozenset()
    on_repeat: Text | None = None
    beside: tuple[BesideEntry, ...] = ()


class CodeEntry(BaseModel):
    """One code, or one of its meanings: then `suffix` tells the rules apart, and `tail` the lines.

    `name` is the driver's own, `immediate` and `investigate` are the vendor's buckets of action. `text` is what an
    example says after the number, `miss` are further lines that it must not match. The rest outranks the kind's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: Annotated[int, Field(ge=1, le=9999)]
    suffix: Name | None = None
    name: Annotated[str, Field(pattern=r"^[A-Z0-9_]+$")]
    says: Text
    kind: Annotated[str, Field(min_length=1)]
    immediate: Text | None = None
    investigate: Text | None = None
    note: Text | None = None
    tail: str = ""
    text: Text = "Ch 0000000c"
    miss: tuple[Text, ...] = ()
    fallback: bool = False
    symptom: Name | None = None
    domain: FaultDomain | None = None
    role: Role | None = None
    suspect: SuspectKind | None = None
    restart: RestartHint | None = None
    weight: Weight | None = None
    beside: tuple[BesideEntry, ...] | None = None


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
    metrics: tuple[Any, ...] = ()
    kinds: Mapping[str, KindEntry] = Field(default_factory=dict)
    codes: tuple[Any, ...] = ()
    weights: Mapping[str, Weight] = Field(default_factory=dict)
    off: tuple[str, ...] = ()
