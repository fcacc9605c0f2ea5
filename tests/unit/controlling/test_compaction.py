"""What a ledger keeps in memory and on disk when it is written anew."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from relance.controlling import ledger as ledgers
from relance.controlling.ledger import KEEP_DECIDED, LEDGER_NAME, Ledger
from relance.domain.ledger_lines import read_lines
from relance.domain.ledgers import Decided, Taken
from relance.testing.virtual_time import VirtualClock, VirtualTime

CLOCK = VirtualClock(VirtualTime())
AT = CLOCK.now()
OLD = Decided(attempt="old", reason="stop", at=AT - KEEP_DECIDED - timedelta(seconds=1))
NEW = Decided(attempt="new", reason="stop", at=AT)
TAKEN = Taken(attempts=("b",), at=AT)


def test_what_a_compaction_drops_is_dropped_from_memory_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "alpha", CLOCK, compact_bytes=1)
    ledger.append(OLD, NEW)
    assert set(ledger.state.decided) == {"new"}


def test_a_folder_that_cannot_be_synced_leaves_the_ledger_writing_to_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise OSError(5, "Input/output error")

    ledger = Ledger(tmp_path, "alpha", CLOCK, compact_bytes=1)
    monkeypatch.setattr(ledgers, "_sync_folder", refuse)
    ledger.append(NEW)
    assert any("Input/output error" in problem for problem in ledger.problems)
    monkeypatch.undo()
    ledger.append(TAKEN)
    assert TAKEN in read_lines((tmp_path / LEDGER_NAME).read_bytes()).entries
    assert ledger.why_nothing_begins() == ""
