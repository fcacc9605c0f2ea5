"""Limits from a settings file: only what differs from the shipped defaults is named."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, get_type_hints

from relance.domain.limits import Limits


class SettingError(ValueError):
    """A setting cannot be used. The text names it and says what to do."""


def read_limits(data: Mapping[str, object], path: str = "limits") -> Limits:
    """The shipped limits with the given ones put over them. Raises SettingError for a bad name or value."""
    result: Limits = _overlay(Limits(), data, path)
    return result


def _overlay(value: Any, data: Mapping[str, object], path: str) -> Any:  # noqa: ANN401 - any of the limits' dataclasses
    kinds = get_type_hints(type(value))
    changes: dict[str, Any] = {}
    for name, given in data.items():
        if name not in kinds:
            near = difflib.get_close_matches(name, kinds, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(kinds)}"
            message = f"{path}.{name}: no such setting{hint}"
            raise SettingError(message)
        current = getattr(value, name)
        if dataclasses.is_dataclass(current):
            if not isinstance(given, Mapping):
                message = f"{path}.{name}: expected settings by name, got {given!r}"
                raise SettingError(message)
            changes[name] = _overlay(current, given, f"{path}.{name}")
        else:
            changes[name] = _number(given, kinds[name], f"{path}.{name}")
    return dataclasses.replace(value, **changes)


def _number(given: object, kind: Any, path: str) -> bool | int | float:  # noqa: ANN401 - a type
    if kind is bool:
        if isinstance(given, bool):
            return given
        message = f"{path}: expected true or false, got {given!r}"
        raise SettingError(message)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or (kind is int and int(given) != given):
        message = f"{path}: expected {'a whole number' if kind is int else 'a number'}, got {given!r}"
        raise SettingError(message)
    if given < 0:
        message = f"{path}: may not be below 0, got {given!r}"
        raise SettingError(message)
    return int(given) if kind is int else float(given)
