"""Figures of benchmarks, and whether a bar is held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.measures import Limit, Result, spread
from bench.pages import kept


def result(value: float | None = 1.0, *, wrong: tuple[str, ...] = (), is_quick: bool = False) -> Result:
    """A result with one bar at 2 s."""
    return Result(
        name="detections",
        measure="rank killed to finding",
        limits=(Limit(name="median", value=value, most=2.0),),
        wrong=wrong,
        conditions="one kill",
        is_quick=is_quick,
    )


def test_a_spread_has_median_and_maximum() -> None:
    assert spread([3.0, 1.0, 2.0]).data == {"count": 3, "median": 2.0, "max": 3.0, "p95": None}


def test_a_95th_percentile_is_given_from_30_values_up() -> None:
    assert spread([float(each) for each in range(1, 30)]).p95 is None
    assert spread([float(each) for each in range(1, 101)]).p95 == 95.0


def test_a_spread_of_nothing_has_no_figures() -> None:
    assert spread([]).data == {"count": 0, "median": None, "max": None, "p95": None}


@pytest.mark.parametrize(
    ("value", "wrong", "is_held"),
    [(2.0, (), True), (2.1, (), False), (None, (), False), (1.0, ("it fell over",), False)],
    ids=["at the bar", "above it", "nothing measured", "something went wrong"],
)
def test_a_bar_is_held_only_by_a_figure_within_it_and_nothing_wrong(
    value: float | None, wrong: tuple[str, ...], is_held: bool
) -> None:
    assert result(value, wrong=wrong).is_held is is_held


def test_a_ratio_says_how_near_the_bar_is() -> None:
    assert Limit(name="median", value=0.5, most=2.0).ratio == 0.25
    assert Limit(name="actions", value=0, most=0).ratio is None
    assert Limit(name="rate", value=4.0, most=2.0, is_least=True).ratio == 0.5


def test_a_rate_has_to_reach_its_bar() -> None:
    assert Limit(name="rate", value=2.0, most=2.0, is_least=True).is_held
    assert not Limit(name="rate", value=1.9, most=2.0, is_least=True).is_held
    assert not Limit(name="rate", value=None, most=2.0, is_least=True).is_held


def test_results_are_kept_as_data_and_as_a_page(tmp_path: Path) -> None:
    kept([result(wrong=("it fell over",))], "2026-03-01", tmp_path)
    data = json.loads((tmp_path / "bench.json").read_text())
    page = (tmp_path / "bench.md").read_text()
    assert data["detections"]["bars"][0]["ratio"] == 0.5
    assert {"cpu", "cores", "python"} <= set(data["detections"]["machine"])
    assert "| median | 1 s | at most 2 s | 0.50 |" in page
    assert "**Not held**" in page
    assert "- it fell over" in page


def test_a_quick_result_never_replaces_a_full_one(tmp_path: Path) -> None:
    kept([result(1.0)], "2026-03-01", tmp_path)
    kept([result(0.1, is_quick=True)], "2026-03-02", tmp_path)
    data = json.loads((tmp_path / "bench.json").read_text())
    assert data["detections"]["bars"][0]["value"] == 1.0
    kept([result(0.5)], "2026-03-03", tmp_path)
    assert json.loads((tmp_path / "bench.json").read_text())["detections"]["date"] == "2026-03-03"


def test_results_of_other_benchmarks_stay(tmp_path: Path) -> None:
    kept([result()], "2026-03-01", tmp_path)
    other = Result(name="memory", measure="resident memory", limits=(Limit(name="max", value=1, most=2),))
    assert set(kept([other], "2026-03-02", tmp_path)) == {"detections", "memory"}
