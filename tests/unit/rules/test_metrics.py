from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
import yaml

from relance.domain.faults import Role, Scope
from relance.rules import load_pack
from relance.rules import pack as packaged_files
from relance.rules.formats import PackError
from relance.rules.metric_entries import check_metrics, samples_of
from relance.rules.metric_rules import MetricRule, Series
from relance.rules.metrics import evaluate

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RULE = """
group: ours
metrics:
  - id: {id}
    title: A condition
    series: [a, b]
    when: {when}
    symptom: odd
    domain: hardware
    role: maybe
    suspect: self
    restart: excl
    weight: 0.5
    source: a test
    hit: ['0 n1 1']
    miss: ['0 n1 0']
"""


def rule(when: str, *more: str) -> MetricRule:
    text = RULE.format(id="ours", when=when) + "".join(f"    {line}\n" for line in more)
    return load_pack({"ours.yaml": text}).metrics[0]


def told(which: MetricRule, *lines: str) -> list[tuple[str | None, str | None, int | None]]:
    hits = evaluate((which,), samples_of("\n".join(lines), which), NOW)
    return [(hit.node, hit.device, hit.line) for hit in hits]


@pytest.fixture(scope="module")
def packaged() -> tuple[MetricRule, ...]:
    text = (Path(packaged_files.__file__).parent / "metrics.yaml").read_text()
    return load_pack({"metrics.yaml": text}).metrics


def test_every_packaged_condition_is_met_by_its_examples_and_by_no_counterexample(
    packaged: tuple[MetricRule, ...],
) -> None:
    assert len(packaged) > 80
    assert check_metrics(packaged) == ()


def test_an_example_that_does_not_hold_is_told() -> None:
    (first, second) = check_metrics((rule("{above: 5}"), rule("{above: -1}")))
    assert (first.field, first.message) == ("hit.1", "the condition is not met")
    assert (second.field, second.message) == ("miss.1", "the condition is met")


def test_a_hit_says_where_and_when_and_what() -> None:
    which = rule("{becomes: [79]}", "value_as: xid")
    (hit,) = evaluate((which,), samples_of("0 n1 gpu=3 0\n60 n1 gpu=3 79", which), NOW)
    assert (hit.scope, hit.role, hit.node, hit.device) == (Scope.METRICS, Role.MAYBE, "n1", "gpu3")
    assert hit.at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert hit.excerpt == 'a{gpu="3"} 0 -> 79 on n1'
    assert hit.captures["xid"] == "79"


@pytest.mark.parametrize(
    ("when", "lines", "line"),
    [
        ("{changes: true}", ("0 n1 79", "60 n1 79"), None),
        ("{changes: true}", ("0 n1 0", "60 n1 0", "120 n1 4"), 3),
        ("{grows: 5}", ("0 n1 100", "60 n1 3", "120 n1 4"), None),
        ("{grows: 5}", ("0 n1 100", "60 n1 3", "120 n1 6"), 3),
        ("{grows_per_minute: 60}", ("0 n1 0", "600 n1 590"), None),
        ("{grows_per_minute: 60}", ("0 n1 0", "600 n1 610"), 2),
        ("{bits: [8, 64]}", ("0 n1 4", "60 n1 68"), 2),
        ("{bits: [8, 64]}", ("0 n1 39",), None),
        ("{below: 0.1, of: [b]}", ("0 n1 b 1000", "0 n1 90"), 2),
        ("{below: 0.1, of: [b]}", ("0 n2 b 1000", "0 n1 90"), None),
        ("{above_peers: 15}", ("0 n1 60", "0 n2 90", "0 n3 61"), 2),
        ("{above_peers: 15}", ("0 n1 60", "0 n2 90"), None),
        ("{below_peers: 0.5}", ("0 n1 0", "0 n2 0", "0 n3 0", "0 n4 0"), None),
        ("{unlike_peers: true}", ("0 n1 8", "0 n2 8", "0 n3 7", "0 n4 8"), 3),
        ("{unlike_peers: true}", ("0 n1 8", "0 n2 7", "0 n3 8", "0 n4 7"), None),
        ("{below_peak: 0.3}", ("0 n1 100", "60 n1 90", "120 n1 20"), 3),
        ("{below_peak: 0.3}", ("0 n1 20", "60 n1 100"), None),
        ("{vanishes: true}", ("0 n1 1", "60 n1 1", "0 n2 1", "600 n2 1", "0 n3 1", "600 n3 1"), 2),
        ("{vanishes: true}", ("0 n1 1", "60 n1 1", "0 n2 1", "600 n2 1"), None),
        ("{above: 5}", ("0 n1 NaN", "60 n1 nan"), None),
    ],
)
def test_conditions(when: str, lines: tuple[str, ...], line: int | None) -> None:
    assert [found for _, _, found in told(rule(when), *lines)] == ([] if line is None else [line])


def test_a_level_has_to_last_and_counts_from_its_beginning() -> None:
    lasting = rule("{above: 5}", "for_s: 60")
    assert told(lasting, "0 n1 9", "30 n1 1", "60 n1 9", "90 n1 9") == []
    assert told(lasting, "0 n1 9", "30 n1 1", "60 n1 9", "90 n1 9", "120 n1 9") == [("n1", None, 3)]


def test_a_level_throughout_is_met_only_if_no_sample_denies_it() -> None:
    always = rule("{above: 5}", "throughout: true")
    assert told(always, "0 n1 9", "60 n1 8") == [("n1", None, 2)]
    assert told(always, "0 n1 9", "60 n1 4", "90 n1 9") == []


def test_another_series_of_the_same_device_has_to_hold_too() -> None:
    both = rule("{below: 0.1}", "beneath: {series: [util], when: {above: 90}}")
    assert told(both, "0 n1 gpu=0 0", "0 n1 util gpu=1 99", "0 n1 util gpu=0 5") == []
    assert told(both, "0 n1 gpu=0 0", "0 n1 util gpu=0 99") == [("n1", "gpu0", 1)]


def test_labels_choose_the_series() -> None:
    chosen = rule("{equals: [1]}", "where: {reason: OOMKilled}")
    assert told(chosen, "0 n1 reason=Completed 1") == []
    assert told(chosen, "0 n1 1") == [("n1", None, 1)]


def test_samples_without_times_show_changes_and_no_rates() -> None:
    which = rule("{grows_per_minute: 1}")
    (timed,) = samples_of("0 n1 0\n60 n1 900", which)
    untimed = Series(name=timed.name, node="n1", points=timed.points, timed=False)
    assert evaluate((which,), [timed], NOW) != ()
    assert evaluate((which,), [untimed], NOW) == ()
    (hit,) = evaluate((rule("{grows: 1}"),), [untimed], NOW)
    assert hit.at is None


def test_the_order_of_series_does_not_matter(packaged: tuple[MetricRule, ...]) -> None:
    which = next(each for each in packaged if each.id == "metric-hot-gpu")
    samples = list(samples_of(which.hit[0], which))
    first = evaluate(packaged, samples, NOW)
    Random(1).shuffle(samples)
    assert first != ()
    assert evaluate(packaged, samples, NOW) == first


@pytest.mark.parametrize(
    "when", ["{}", "{above: 1, below: 2}", "{grows: 1, of: [b]}", "{above: much}", "{below_peers: 3}", "{more: 1}"]
)
def test_a_condition_that_asks_nothing_or_too_much_is_refused_by_name(when: str) -> None:
    with pytest.raises(PackError) as refused:
        load_pack({"ours.yaml": RULE.format(id="ours", when=when)})
    assert {(each.file, each.rule) for each in refused.value.problems} == {("ours.yaml", "ours")}


def test_rules_over_metrics_share_ids_weights_and_switches_with_the_others() -> None:
    text = RULE.format(id="ours", when="{above: 1}")
    assert load_pack({"a.yaml": text}, weights={"ours": 0.1}).metrics[0].weight == 0.1
    assert load_pack({"a.yaml": text}, off=["ours"]).metrics == ()
    with pytest.raises(PackError, match="there is a rule of this id"):
        load_pack({"a.yaml": text, "b.yaml": text.replace("group: ours", "group: more")})


def test_every_condition_can_be_written_down_again(packaged: tuple[MetricRule, ...]) -> None:
    """A condition is data: test, limits and series, nothing that only this program could run."""
    for each in packaged:
        shown = {"test": each.when.test.value, "limits": list(each.when.limits), "of": list(each.when.of)}
        assert yaml.safe_load(yaml.safe_dump(shown)) == shown


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (("0 n1 4", "30 n1 0", "60 n1 4"), None),
        (("0 n1 4", "30 n1 0", "60 n1 0", "90 n1 4", "120 n1 4"), None),
        (("0 n1 4", "30 n1 0", "60 n1 4", "90 n1 5"), 4),
        (("0 n1 4", "30 n1 0", "60 n1 1"), 3),
        (("0 n1 4", "30 n1 5"), 2),
    ],
)
def test_a_counter_that_was_only_away_while_its_exporter_started_has_not_grown(
    lines: tuple[str, ...], line: int | None
) -> None:
    assert told(rule("{grows: 1}"), *lines) == ([] if line is None else [("n1", None, line)])


def test_a_node_whose_clock_was_set_has_not_booted(packaged: tuple[MetricRule, ...]) -> None:
    rebooted = next(which for which in packaged if which.id == "metric-rebooted")
    for by_s in (-90_000, -70, 70, 3600, 90_000):
        lines = ("0 n1 1767000000", "30 n1 1767000000", f"60 n1 {1767000000 + by_s}", "90 n1 1767000000")
        assert told(rebooted, *lines) == []


def test_every_rule_that_grows_by_a_time_says_that_it_is_one(packaged: tuple[MetricRule, ...]) -> None:
    times = [which for which in packaged if any(name.endswith("_time_seconds") for name in which.series)]
    growing = [which for which in times if which.when.test.is_growth]

    assert growing
    assert all(which.is_time for which in growing)
