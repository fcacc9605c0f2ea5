"""Loki's answers as entries."""

from __future__ import annotations

from typing import Any

from relance.sources.exchanges import StoreAnswerError
from relance.sources.stores.backs import Entry

_REMEDY = "see that the url is that of Loki itself"


def entries_of(document: Any) -> list[Entry]:  # noqa: ANN401 - JSON data
    """The entries of an answer with streams, by rising time; of one time in their order. Raises StoreAnswerError.

    Streams come in no order of time, so they are put in an order of their own.
    """
    entries: list[Entry] = []
    try:
        if document["data"]["resultType"] != "streams":
            raise StoreAnswerError("the answer has no streams", _REMEDY)
        streams = [(dict(each["stream"]), each["values"]) for each in document["data"]["result"]]
        for labels, values in sorted(streams, key=lambda each: sorted(each[0].items())):
            entries += [Entry(int(value[0]), labels, value[1].encode("utf-8", "replace")) for value in values]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise StoreAnswerError(f"the answer is not one of Loki: {error!r}", _REMEDY) from error
    entries.sort(key=lambda entry: entry.at_ns)
    return entries


def strings_of(document: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON data
    """The strings of an answer with names or values. Raises StoreAnswerError."""
    data = document.get("data") if isinstance(document, dict) else None
    if data is None and isinstance(document, dict) and document.get("status") == "success":
        return ()  # it says so where there are none
    if not isinstance(data, list) or not all(isinstance(each, str) for each in data):
        raise StoreAnswerError("the answer is no list of names", _REMEDY)
    return tuple(data)
