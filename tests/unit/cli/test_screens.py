"""Tables in terminals: what people copy stays whole, and sentences stay readable."""

from __future__ import annotations

import io
import re

import pytest

from relance.cli.screens import Screen

ID = "inc-0f8837b2f04e03e04479"
SENTENCE = "nothing by us at stage observe; we would restart the job from its last checkpoint without node012"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _told(monkeypatch: pytest.MonkeyPatch, *, width: int | None) -> list[str]:
    stream = _Terminal() if width else io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", str(width or 80))
    monkeypatch.setenv("TERM", "xterm")
    Screen(as_json=False).table(
        ("incident", "opened (UTC)", "#step", "what happens next", "note"),
        ((ID, "2026-11-30 15:48:30", "9", SENTENCE, "-"), ("inc-2", "2026-11-30 15:48:31", "1 000", "nothing", "-")),
        empty="none",
        sentences=("what happens next", "note"),
    )
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()]


@pytest.mark.parametrize("width", [60, 80])
def test_in_a_narrow_terminal_sentences_go_below_their_rows(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    told = _told(monkeypatch, width=width)
    assert told[0].split("   ")[0] == "incident"
    assert told[2] == f"{ID}   2026-11-30 15:48:30       9"
    assert told[3].startswith("    what happens next: nothing by us at stage")
    assert " ".join(line.strip() for line in told[3:-2]) == f"what happens next: {SENTENCE}"
    assert told[-2].split("   ")[-1] == "1 000"
    assert all(len(line) <= width for line in told)
    assert not any("note" in line for line in told), "a cell with nothing in it is not told"


def test_in_a_wide_terminal_and_in_a_file_each_row_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (200, None):
        told = _told(monkeypatch, width=width)
        assert len(told) == 4
        assert SENTENCE in told[2]


def test_sentences_that_can_still_be_read_stay_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _told(monkeypatch, width=110)
    assert told[2].startswith(f"{ID}   ")
    assert told[3].startswith(" " * len(ID))
