"""What people see in a terminal: tables and lines. All text of others is made visible and never obeyed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import Literal

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from relance.domain.encoding import encode
from relance.recovery.wordings import visible

_NO_END = 10_000
"""Columns of an output that is no terminal: lines are whole there, for grep and for files."""
_LEAST_SENTENCE = 30
"""Columns in which a sentence can still be read; in fewer it goes below its row."""
_HANG = " " * 15
"""As wide as the names of sentences."""
_GAP = 3
_INDENT = 4

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

    @property
    def width(self) -> int:
        """Columns of a line: those of the terminal, and no end where it is none."""
        return self._console.width

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

    def sentence(self, name: str, text: str, tone: str = "") -> None:
        """A named sentence that may be long: in a terminal it goes on below itself, elsewhere it stays one line."""
        room = max(self._console.width - len(_HANG), _LEAST_SENTENCE)
        lines = wrap(visible(text), room, break_long_words=False, break_on_hyphens=False) or [""]
        for number, each in enumerate(lines):
            start = f"{name + ':':<{len(_HANG) - 1}} " if number == 0 else _HANG
            self._console.print(Text.assemble((start, "bold"), (each, STYLES[tone])), soft_wrap=True)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str | Text]],
        *,
        empty: str,
        sentences: Sequence[str] = (),
    ) -> None:
        """A table; columns that begin with `#` hold numbers. `empty` is said when there is no row.

        Columns named in `sentences` go below their rows in a terminal too narrow for them, so that names and ids, which
        people copy, stay whole.
        """
        every = [[cell if isinstance(cell, Text) else shown(cell) for cell in row] for row in rows]
        if not every:
            self.line(empty)
            return
        if self._is_narrow(columns, every, sentences):
            self._spread(columns, every, sentences)
            return
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
        for name in columns:
            table.add_column(name.removeprefix("#"), justify=_side(name), overflow="fold")
        for row in every:
            table.add_row(*row)
        self._console.print(table)

    def _is_narrow(self, columns: Sequence[str], rows: Sequence[Sequence[Text]], sentences: Sequence[str]) -> bool:
        if not sentences:
            return False
        widths = dict(zip(columns, _widths(columns, rows), strict=True))
        room = self._console.width - _GAP * (len(columns) - 1)
        room -= sum(width for name, width in widths.items() if name not in sentences)
        wanted = [widths[name] for name in sentences]
        return sum(wanted) > room and room < sum(min(width, _LEAST_SENTENCE) for width in wanted)

    def _spread(self, columns: Sequence[str], rows: Sequence[Sequence[Text]], sentences: Sequence[str]) -> None:
        """Each row in a line, as long as it is, and its sentences below it."""
        widths = _widths(columns, rows)
        head = [Text(name.removeprefix("#"), style="bold") for name in columns]
        in_row = [place for place, name in enumerate(columns) if name not in sentences]
        for number, row in enumerate([head, *rows]):
            cells = [row[place].copy() for place in in_row]
            for cell, place in zip(cells, in_row, strict=True):
                cell.align(_side(columns[place]), widths[place])
            line = Text(" " * _GAP).join(cells)
            line.rstrip()
            self._console.print(line, soft_wrap=True)
            if number == 0:
                length = sum(widths[place] for place in in_row) + _GAP * (len(in_row) - 1)
                self._console.print("─" * min(length, self._console.width))
                continue
            for name in sentences:
                sentence = row[columns.index(name)]
                if sentence.plain not in ("", "-"):
                    told = Text.assemble((f"{name}: ", "dim"), sentence)
                    self._console.print(Padding(told, (0, 0, 0, _INDENT)))


def _side(column: str) -> Literal["left", "right"]:
    return "right" if column.startswith("#") else "left"


def _widths(columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> list[int]:
    return [
        max(len(name.removeprefix("#")), *(row[place].cell_len for row in rows)) for place, name in enumerate(columns)
    ]


def shown(text: str, tone: str = "") -> Text:
    """Text as it may be shown, in the colour of a tone."""
    return Text(visible(text), style=STYLES[tone])


def clock(at: datetime | None) -> str:
    """A time in UTC, or a dash."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if at else "-"
