"""Folders of labelled cases on disk: a case is a folder with `expected.yaml` beside its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from stat import S_ISREG

from relance.domain.faults import Scope

EXPECTED = "expected.yaml"
_CONTEXT = "context.yaml"
_MOST_BYTES = 64 << 20


def cases_below(folder: Path) -> list[Path]:
    """The folders of cases in a folder and below, in the order of their names; links are not followed."""
    return sorted(path.parent for path in folder.rglob(EXPECTED) if S_ISREG(path.lstat().st_mode))


def texts_of(folders: Iterable[Path]) -> Mapping[str, list[tuple[Scope, bytes]]]:
    """The texts of each case by its name, each with the kind of log that its name tells."""
    return {str(case): list(_texts(case)) for folder in folders for case in cases_below(folder)}


def _texts(case: Path) -> Iterator[tuple[Scope, bytes]]:
    from relance.watching.finished import named

    for file in sorted(case.rglob("*")):
        if file.name in (EXPECTED, _CONTEXT) or not S_ISREG(file.lstat().st_mode):
            continue
        with file.open("rb") as handle:
            data = handle.read(_MOST_BYTES)
        yield named(file.name, lambda: ()).scope, data
