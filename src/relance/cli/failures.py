"""Failures as one sentence and a remedy on standard error, and what each exit code means."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from http import HTTPStatus
from typing import IO, Any

import click

from relance.client.errors import ClientError, ServerRefusedError, ServerUnreachableError
from relance.recovery.wordings import visible


class ExitCode(IntEnum):
    """What a program that calls `relance` learns from its end."""

    DONE = 0
    """It was done."""
    ERROR = 1
    """It failed."""
    USAGE = 2
    """The command line makes no sense."""
    NOT_FOUND = 3
    """No such job, incident, advice, cluster or rule."""
    UNREACHABLE = 4
    """No server answers, or it cannot answer now."""
    REFUSED = 5
    """The server refuses: no token, no rights, or what was asked does not make sense now."""


class FailureError(click.ClickException):
    """Ends the command with a sentence, a remedy and an exit code."""

    def __init__(self, message: str, remedy: str = "", code: ExitCode = ExitCode.ERROR) -> None:
        """Take what to say and how to end."""
        super().__init__(message)
        self.remedy = remedy
        self.exit_code = int(code)  # type: ignore[misc] # click has it per class, we per failure

    def show(self, file: IO[Any] | None = None) -> None:
        """Say it on standard error."""
        out = file or sys.stderr
        click.echo(f"relance: {visible(self.message)}", file=out)
        if self.remedy:
            click.echo(f"  {visible(self.remedy)}", file=out)


_NOT_FOUND = frozenset({HTTPStatus.NOT_FOUND})
_REFUSED = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT, HTTPStatus.MISDIRECTED_REQUEST}
)
_AWAY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})


@contextmanager
def told() -> Iterator[None]:
    """Turn what the client raises into a failure with the exit code that belongs to it."""
    try:
        yield
    except ServerUnreachableError as error:
        raise FailureError(str(error), error.remedy, ExitCode.UNREACHABLE) from error
    except ServerRefusedError as error:
        raise FailureError(str(error), error.remedy, code_of(error)) from error
    except ClientError as error:
        raise FailureError(str(error), error.remedy, ExitCode.UNREACHABLE) from error


def code_of(error: ServerRefusedError) -> ExitCode:
    """The exit code for an error of the server."""
    if error.status in _NOT_FOUND:
        return ExitCode.NOT_FOUND
    if error.status in _REFUSED:
        return ExitCode.REFUSED
    return ExitCode.UNREACHABLE if error.status in _AWAY else ExitCode.ERROR
