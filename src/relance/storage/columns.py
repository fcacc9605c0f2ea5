"""How values become columns: text keys, times, and payloads. All of it is ASCII, so no collation can get it wrong."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from relance.domain.encoding import decode, to_json

KEY_LENGTH: Final = 255
"""Characters of a key column."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_HASHED: Final = "~"


def column_key(text: str) -> str:
    """The form under which a text is a key: itself where every database compares it as Python does, else its hash.

    Databases disagree about case, accents, trailing spaces and length; printable ASCII that ends in no space and fits
    the column is the same to all of them. The text itself is kept in a payload where it is needed again.
    """
    plain = text.isascii() and text.isprintable() and len(text) <= KEY_LENGTH
    if plain and not text.endswith(" ") and not text.startswith(_HASHED):
        return text
    return _HASHED + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def to_us(at: datetime) -> int:
    """Microseconds since 1970 in UTC, exactly."""
    return (at - EPOCH) // _MICROSECOND


def from_us(at_us: int) -> datetime:
    """The time that `to_us` wrote."""
    return EPOCH + timedelta(microseconds=at_us)


def to_payload(value: object) -> str:
    """A value as JSON text in ASCII; `from_payload` reads it back, text that is not valid Unicode included."""
    return to_json(value)


def from_payload(kind: Any, payload: str) -> Any:  # noqa: ANN401 - a type or union of types, and a value of it
    """The value of type `kind` that `to_payload` wrote. Raises EncodingError."""
    return decode(kind, json.loads(payload))
