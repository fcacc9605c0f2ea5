"""Values as JSON answers, in the encoding of `relance.domain.encoding`, which a client reads back by its types."""

from __future__ import annotations

from starlette.responses import JSONResponse

from relance.domain.encoding import encode


def answer(value: object, status_code: int = 200) -> JSONResponse:
    """A value, or a tuple of them as an array."""
    return JSONResponse(encode(value), status_code=status_code)
