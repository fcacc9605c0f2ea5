"""Tables whose columns end in a mark that nobody can guess.

Names, comments and paths are other people's text: they may hold any separator and any line break. So each question
carries a fresh random mark (`relance.slurm.running.new_mark`), every column of the answer ends in it, and the table is
cut at the mark alone. The title row is asked for too: it proves that the answer is that table, also when it is empty,
and that the columns were neither padded nor cut.
"""

from __future__ import annotations

from collections.abc import Iterator

from relance.slurm.parsing.values import unreadable


def read_rows(output: bytes, *, mark: str, first_title: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The titles and the rows of a table whose every row has one cell for each title.

    Raises:
        UnreadableError: Cut off, another table, or columns of a fixed width.
    """
    titles, rows = rows_of(output, mark=mark, first_title=first_title)
    return titles, list(rows)


def rows_of(output: bytes, *, mark: str, first_title: str) -> tuple[tuple[str, ...], Iterator[tuple[str, ...]]]:
    """The same, row by row, for whoever keeps few of them; what is wrong with the rows is raised on the way.

    Raises:
        UnreadableError: Another table, or columns of a fixed width.
    """
    text = output.decode("utf-8", "replace")
    head, newline, body = text.partition(f"{mark}\n")
    titles = tuple(head.split(mark))
    if not newline or titles[0] != first_title or any(title != title.strip() or not title for title in titles):
        raise unreadable(f"the table of {first_title}", text[:200])
    return titles, _rows(body, mark, titles)


def _rows(body: str, mark: str, titles: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Rows of as many cells as there are titles, each after the first on a new line; the last one ends its line."""
    at, end = 0, len(body)
    while body.find(mark, at) >= 0:
        if at:
            if body[at] != "\n":
                raise unreadable(f"a row of the table of {titles[0]}", body[at : at + 200])
            at += 1
        cells = []
        for _ in titles:
            stop = body.find(mark, at)
            if stop < 0:
                raise unreadable(f"a row of the table of {titles[0]}", body[-200:])
            cells.append(body[at:stop])
            at = stop + len(mark)
        yield tuple(cells)
    if body[at:end] != ("\n" if at else ""):
        raise unreadable(f"the end of the table of {titles[0]}", body[-200:])
