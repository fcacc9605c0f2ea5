"""The page of `relance diagnose`: short, whole on a narrow terminal, and readable without colours."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from relance.cli import screens
from relance.cli.diagnosing import Diagnosis, Means, diagnosis_of, means_of
from relance.cli.diagnosis_pages import show
from relance.cli.evidence_files import context_beside, files_of
from tests.layers import ROOT

OPEN = ROOT / "cases" / "open"
NOW = datetime(2031, 3, 1, tzinfo=UTC)
CASES = sorted(path.parent.name for path in OPEN.glob("*/expected.yaml"))[::9]


@pytest.fixture(scope="module")
def means() -> Means:
    return means_of(None)


def diagnosed(means: Means, folder: Path) -> Diagnosis:
    given, _ = context_beside((folder,))
    return diagnosis_of(files_of((folder,)), given, means, NOW)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def page(found: Diagnosis, monkeypatch: pytest.MonkeyPatch, *, terminal: bool = False) -> list[str]:
    stream = _Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    show(screens.Screen(as_json=False), found)
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()


@pytest.mark.parametrize("name", CASES)
def test_no_line_is_wider_than_a_terminal_and_the_page_fits_a_screen(
    name: str, means: Means, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = page(diagnosed(means, OPEN / name), monkeypatch, terminal=True)
    assert [line for line in lines if len(line) > 80] == []
    assert len(lines) <= 60


@pytest.mark.parametrize("name", CASES)
def test_the_answer_comes_first_and_every_line_has_a_name(
    name: str, means: Means, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = page(diagnosed(means, OPEN / name), monkeypatch)
    assert [line.split(":")[0] for line in lines[:4]] == ["whose fault", "what to do", "decision", "how sure"]
    assert all(re.match(r"[a-z ]{3,13}: |  \| |$", line) for line in lines)


def test_the_first_evidence_is_quoted_with_its_place(
    means: Means, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dmesg-n2.log").write_text(
        "[ 100.000000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    )
    (tmp_path / "context.yaml").write_text("nodes: [n1, n2]\n")
    lines = page(diagnosed(means, tmp_path), monkeypatch)
    at = lines.index("  | [ 100.000000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    assert lines[at + 1].startswith("  | dmesg-n2.log:1")


def test_of_a_long_quote_the_first_and_the_last_lines_are_shown(
    means: Means, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = "".join(f'  File "/home/ada/t{number}.py", line 3, in f{number}\n    g()\n' for number in range(8))
    (tmp_path / "job.log").write_text(f"Traceback (most recent call last):\n{frames}KeyError: 'tokens'\n")
    found = diagnosed(means, tmp_path)
    first = replace(found.verdict.evidence[0], excerpt=f"Traceback:\n{frames}KeyError: 'tokens'")
    lines = page(replace(found, verdict=replace(found.verdict, evidence=(first,))), monkeypatch)
    assert [line[4:] for line in lines if line.startswith("  | ")] == [
        "Traceback:",
        '  File "/home/ada/t0.py", line 3, in f0',
        "... 12 lines ...",
        "    g()",
        '  File "/home/ada/t7.py", line 3, in f7',
        "    g()",
        "KeyError: 'tokens'",
        "job.log:18",
    ]


def test_the_rule_behind_the_first_evidence_is_named(
    means: Means, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dmesg-n2.log").write_text(
        "[ 100.000000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    )
    lines = page(diagnosed(means, tmp_path), monkeypatch)
    assert "by rule:       xid-79; relance rules show xid-79 has its source and its notes" in lines
