"""Our own logs: structured lines on standard error, for people on a terminal and as JSON elsewhere."""

from __future__ import annotations

import logging
import sys

import structlog


def set_up_logs(level: str = "info", *, json: bool | None = None) -> None:
    """Send logs of `level` and above to standard error; `json` None: JSON unless it is a terminal.

    Raises ValueError for a level that does not exist.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        message = f"no such log level: {level!r}"
        raise ValueError(message)
    as_json = not sys.stderr.isatty() if json is None else json
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
