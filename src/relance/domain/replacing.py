"""`dataclasses.replace` for values that are replaced with each line that is read, at half its cost or less.

It copies the slots of a value as they are, which its class has checked already, and sets those that change.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import replace
else:

    def replace(value, /, **changes):  # noqa: ANN001, ANN003, ANN201 - those of the standard library's
        """The value with other fields. Raises TypeError for a field that there is not."""
        kind = type(value)
        slots = _slots(kind)
        if slots is None:
            return dataclasses.replace(value, **changes)
        read, write = slots
        made = object.__new__(kind)
        for put, part in zip(write.values(), read(value), strict=True):
            put(made, part)
        for name, part in changes.items():
            if name not in write:
                message = f"{kind.__name__} has no {name}"
                raise TypeError(message)
            write[name](made, part)
        return made


__all__ = ["replace"]


@cache
def _slots(kind: Any) -> tuple[Any, dict[str, Any]] | None:  # noqa: ANN401 - a dataclass
    """What reads all slots of a value at once, and what writes each; None where more is to be done than to copy."""
    fields = dataclasses.fields(kind)
    plain = all(field.init for field in fields) and not hasattr(kind, "__post_init__") and not kind.__dictoffset__
    if not plain or len(fields) < 2:  # noqa: PLR2004 - a getter of one name gives no tuple
        return None
    names = [field.name for field in fields]
    return attrgetter(*names), {name: getattr(kind, name).__set__ for name in names}
