"""What people see in a terminal: tables and lines. All text of others is made visible and never obeyed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from relance.domain.encoding import encode
from relance.recovery.wordings import visible

_NO_END = 10_000
"""Columns of an output that is no terminal: lines are whole there, for grep and for files."""

STYLES = {
    "good": "green",
    "busy": "cyan",
    "warn": "yellow",
    "bad": "bold red",
    "quiet": "dim",
    "": "",
}


class Screen:
    """Standard output, for a person or, with `as_json`, for a program."""

    def __init__(self, *, as_json: bool) -> None:
        """Look at what standard output is."""
        self.as_json = as_json
        stream = sys.stdout
        is_terminal = stream.isatty()
        self._console = Console(
            file=stream, highlight=False, markup=False, emoji=False, width=None if is_terminal else _NO_END
        )

    def data(self, value: object) -> None:
        """A value as JSON."""
        click.echo(json.dumps(encode(value), indent=2, ensure_ascii=True))

    def line(self, text: str = "", tone: str = "") -> None:
        """A line."""
        self._console.print(shown(text, tone), soft_wrap=True)

    def fact(self, name: str, text: str, tone: str = "") -> None:
        """A named sentence; the names of a block line up."""
        line = Text().append(f"{name + ':':<14} ", style="bold")
        line.append_text(shown(text, tone))
        self._console.print(line, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, empty: str) -> None:
        """A table; columns that begin with `#` hold numbers. `empty` is said when there is no row."""
        every = list(rows)
        if not every:
            self.line(empty)
            return
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
        for name in columns:
            table.add_column(
                name.removeprefix("#"), justify="right" if name.startswith("#") else "left", overflow="fold"
            )
        for row in every:
            table.add_row(*(cell if isinstance(cell, Text) else shown(cell) for cell in row))
        self._console.print(table)


def shown(text: str, tone: str = "") -> Text:
    """Text as it may be shown, in the colour of a tone."""
    return Text(visible(text), style=STYLES[tone])


def clock(at: datetime | None) -> str:
    """A time in UTC, or a dash."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if at else "-"
