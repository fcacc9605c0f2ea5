"""What the double takes in, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from relance.testing.loki_double.shelves import Shelf, with_service

_NS = 1_000_000_000
_WEEK_NS = 7 * 24 * 3600 * _NS
_AHEAD_NS = 600 * _NS
_LINE_BYTES = 256 * 1024
_RATE_BYTES = 4 * 1024 * 1024
_BURST_BYTES = 6_000_000


class PushError(Exception):
    """A push that is refused: the status and the text of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True)
class Meter:
    """So many bytes a second, and a burst of them."""

    left: float = _BURST_BYTES
    at_ns: int = 0

    def take(self, size: int, now_ns: int) -> None:
        """Count bytes. Raises PushError."""
        self.left = min(_BURST_BYTES, self.left + (now_ns - self.at_ns) / _NS * _RATE_BYTES)
        self.at_ns = now_ns
        if size > self.left:
            text = (
                f"Ingestion rate limit exceeded for user fake (limit: {_RATE_BYTES} bytes/sec) while attempting to "
                f"ingest '1' lines totaling '{size}' bytes, reduce log volume or contact your Loki administrator to "
                "see if the limit can be increased"
            )
            raise PushError(429, text)
        self.left -= size


def push(shelf: Shelf, meter: Meter, body: bytes, now_ns: int) -> None:
    """Take a push. Raises PushError."""
    try:
        streams = json.loads(body)["streams"]
        lines = [
            (dict(each["stream"]), at, line) for each in streams for at, line, *_ in map(_value, each.get("values", ()))
        ]
    except PushError as error:
        raise PushError(400, _number_error(body)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PushError(400, f"couldn't parse push request: {error}\n") from error
    good = []
    refused = ""
    for labels, at, line in lines:
        refused = refused or _objection(labels, at, line, now_ns)
        if not _objection(labels, at, line, now_ns):
            good.append((labels, at, line))
    meter.take(sum(len(line.encode()) for *_, line in good), now_ns)
    for labels, at, line in good:
        shelf.put(labels, at, line)
    if refused:
        raise PushError(400, f"{refused}\n")


def _value(value: list[Any]) -> tuple[int, str]:
    if not isinstance(value[0], str):
        raise PushError(400, "number")
    return int(value[0]), value[1]


def _objection(labels: Mapping[str, str], at_ns: int, line: str, now_ns: int) -> str:
    name = ", ".join(f'{key}="{value}"' for key, value in sorted(with_service(labels).items()))
    if at_ns < now_ns - _WEEK_NS:
        oldest = _stamp(now_ns - _WEEK_NS)
        return (
            f"entry for stream '{{{name}}}' has timestamp too old: {_stamp(at_ns)}, "
            f"oldest acceptable timestamp is: {oldest}"
        )
    if at_ns > now_ns + _AHEAD_NS:
        return f"entry for stream '{{{name}}}' has timestamp too new: {_stamp(at_ns)}"
    if len(line.encode()) > _LINE_BYTES:
        return f"Max entry size '{_LINE_BYTES}' bytes exceeded for stream '{{{name}}}' while adding an entry"
    return ""


def _number_error(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    return (
        "loghttp.PushRequest.Streams: []loghttp.LogProtoStream: unmarshalerDecoder: Value looks like "
        "Number/Boolean/None, but can't find its end: ',' or '}' symbol, error found in #10 byte of "
        f"...|{text[-12:]}|..., bigger context ...|{text[-52:]}|...\n"
    )


def _stamp(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // _NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
