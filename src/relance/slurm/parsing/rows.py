"""Tables whose columns end in a mark that nobody can guess.

Names, comments and paths are other people's text: they may hold any separator and any line break. So each question
carries a fresh random mark (`relance.slurm.running.new_mark`), every column of the answer ends in it, and the table is
cut at the mark alone. The title row is asked for too: it proves that the answer is that table, also when it is empty,
and that the columns were neither padded nor cut.
"""

from __future__ import annotations

from relance.slurm.parsing.values import unreadable


def read_rows(output: bytes, *, mark: str, first_title: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The titles and the rows of a table whose every row has one cell for each title.

    Raises:
        UnreadableError: Cut off, another table, or columns of a fixed width.
    """
    text = output.decode("utf-8", "replace")
    head, newline, body = text.partition(f"{mark}\n")
    titles = tuple(head.split(mark))
    if not newline or titles[0] != first_title or any(title != title.strip() or not title for title in titles):
        raise unreadable(f"the table of {first_title}", text[:200])
    cells = body.split(mark)
    if cells.pop() != ("\n" if cells else ""):
        raise unreadable(f"the end of the table of {first_title}", text[-200:])
    width = len(titles)
    if len(cells) % width:
        raise unreadable(f"a row of the table of {first_title}", text[-200:])
    rows: list[tuple[str, ...]] = []
    for start in range(0, len(cells), width):
        first = cells[start]
        if start:
            if not first.startswith("\n"):
                raise unreadable(f"a row of the table of {first_title}", first)
            first = first[1:]
        rows.append((first, *cells[start + 1 : start + width]))
    return titles, rows
