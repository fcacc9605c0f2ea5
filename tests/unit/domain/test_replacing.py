"""Values with other fields: the same as the standard library gives."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from relance.domain.progress import Phase, Progress
from relance.domain.replacing import replace

AT = datetime(2026, 5, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError


@dataclass(frozen=True, kw_only=True)
class Open:
    name: str
    size: int = 1


def test_a_changed_value_equals_the_one_that_is_made_anew() -> None:
    value = Progress(as_of=AT, step=3, loss=2.0)
    changed = replace(value, step=4, phase=Phase.TRAINING)
    assert changed == dataclasses.replace(value, step=4, phase=Phase.TRAINING)
    assert hash(changed) == hash(Progress(as_of=AT, step=4, loss=2.0, phase=Phase.TRAINING))
    assert value == Progress(as_of=AT, step=3, loss=2.0)


def test_a_field_that_there_is_not_is_refused() -> None:
    wrong: dict[str, Any] = {"invented": 1}
    with pytest.raises(TypeError):
        replace(Progress(as_of=AT), **wrong)


def test_what_a_class_checks_is_checked() -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - it says nothing
        replace(Checked(low=1, high=2), low=3)


def test_a_class_without_slots_is_changed_as_well() -> None:
    assert replace(Open(name="a"), size=2) == Open(name="a", size=2)
