"""A notice as the JSON object that every hook gets."""

from __future__ import annotations

import json

from relance.domain.encoding import encode
from relance.ports.notifiers import Notice

VERSION = 1


def payload(notice: Notice) -> bytes:
    """One JSON object in UTF-8: `version`, and the notice's fields by name."""
    fields = encode(notice)
    del fields["type"]
    return json.dumps({"version": VERSION, **fields}, ensure_ascii=False).encode()
