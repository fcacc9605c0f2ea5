"""The bar on labelled cases: open ones held to more, and of held-out ones nothing but figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.bars import evaluate_cases

BUG = 'Traceback (most recent call last):\n  File "/home/ada/t.py", line 9, in main\n    f()\nNameError: name "g"\n'


def case(folder: Path, decision: str) -> None:
    folder.mkdir(parents=True)
    (folder / "job.log").write_text(BUG)
    (folder / "expected.yaml").write_text(f"domain: application\ndecision: {decision}\n")


def test_each_set_has_its_bars_and_held_out_cases_are_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case(tmp_path / "open" / "a", "stop")
    case(tmp_path / "held-out" / "secret-7", "wait")
    monkeypatch.setattr(evaluate_cases, "_CASES", tmp_path)
    found = evaluate_cases.measure(quick=False)
    held = {limit.name: limit.is_held for limit in found.limits}
    assert held["open: decision"]
    assert not held["held-out: decision"]
    assert not held["held-out: false stops"]
    assert "open: first evidence" in held
    assert "held-out: first evidence" not in held
    assert found.figures["held-out"]["cases"] == 1
    assert "secret-7" not in str(found)
