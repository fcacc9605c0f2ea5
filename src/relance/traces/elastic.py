"""Error files of torchelastic: the exception that a worker's main function raised, with its traceback and time."""

from __future__ import annotations

import re
from collections.abc import Iterable

from relance.traces.documents import mapping, moment, read_json, text
from relance.traces.signs import SignKind, TraceFile, TraceSign, UnreadableTraceError, WorkerError

MAX_TEXT_CHARS = 64 * 1024
_ATTEMPT = re.compile(r"attempt_\d+/(\d{1,4})/[^/]*$")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]{0,150}): ")
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SHOWN_CHARS = 300


def read_error(file: TraceFile) -> WorkerError:
    """The error in a file.

    Raises:
        UnreadableTraceError: It is no error file of torchelastic.
    """
    told = mapping(read_json(file.data))
    inner = mapping(told.get("message")) or told
    message = _words(inner.get("message"))
    extra = mapping(inner.get("extraInfo"))
    if not message and not extra:
        raise UnreadableTraceError(
            "The file is no error file of torchelastic: it has no message. "
            "Workers write one where their main function bears torch.distributed.elastic's @record."
        )
    seconds = re.fullmatch(r"(\d{1,11})(?:\.\d+)?", text(extra.get("timestamp"), most=30))
    name = _EXCEPTION.match(message)
    place = _ATTEMPT.search(file.name)
    return WorkerError(
        file=file.name,
        text=_words(extra.get("py_callstack")) or message,
        message=message,
        exception=name[1] if name is not None else "",
        rank=file.rank,
        local_rank=int(place[1]) if place is not None else None,
        node=file.node,
        at=moment(int(seconds[1]) * 10**9) if seconds is not None else None,
    )


def signs_of_errors(errors: Iterable[WorkerError]) -> tuple[TraceSign, ...]:
    """One sign for each worker's error, the earliest first: it is the likeliest to have come before the others."""
    ordered = sorted(
        errors, key=lambda error: (error.at is None, error.at.timestamp() if error.at else 0.0, error.file)
    )
    signs = []
    for place, error in enumerate(ordered):
        who = f"Rank {error.rank}" if error.rank is not None else "A worker"
        local = f" (local rank {error.local_rank})" if error.rank is None and error.local_rank is not None else ""
        message = " ".join(error.message.split())[:_SHOWN_CHARS]
        details = {"exception": error.exception, "message": message}
        if error.local_rank is not None:
            details["local_rank"] = str(error.local_rank)
        signs.append(
            TraceSign(
                kind=SignKind.ELASTIC_ERROR,
                because=f"{who}{local} ended with {message or 'an error without a message'}.",
                confidence=0.5 if place == 0 else 0.4,
                ranks=() if error.rank is None else (error.rank,),
                file=error.file,
                node=error.node,
                at=error.at,
                details={name: value for name, value in details.items() if value},
            )
        )
    return tuple(signs)


def _words(value: object) -> str:
    return _UNSAFE.sub("", value[:MAX_TEXT_CHARS]).strip() if isinstance(value, str) else ""
