from __future__ import annotations

import pytest

from relance.domain.faults import Role
from relance.rules.loading import load_pack
from relance.rules.metric_entries import samples_of
from relance.rules.metric_queries import Naming, Reach, expression, one_of, presence, questions, quoted, samples
from relance.rules.metric_rules import MetricRule, Point, Series
from relance.rules.metric_rules import Test as Asked
from relance.rules.metrics import PEERS_STEP_S, Standing, evaluate
from relance.rules.pack import read_texts
from tests.unit.rules.packs import READ_AT

RULES = load_pack({"metrics.yaml": read_texts()["metrics.yaml"]}).metrics
NAMING = Naming(node_labels=("Hostname",), match={"cluster": "alpha"})


def rule(identifier: str) -> MetricRule:
    return next(each for each in RULES if each.id == identifier)


def asked(identifier: str, *names: str, window_s: float = 150.0) -> str:
    [question] = questions([rule(identifier)])
    return expression(question, 3, frozenset(names or question.names), NAMING, window_s, 15.0)


def test_rules_over_the_same_changes_are_one_question() -> None:
    xids = [each for each in RULES if each.when.test is Asked.BECOMES and "XID" in each.series[0]]
    [question] = questions(xids)
    assert question.rules == tuple(xids)
    assert question.reach is Reach.RECENT


def test_what_is_ordinary_is_not_asked_of_all_nodes() -> None:
    told = {each.id for question in questions(RULES) for each in question.rules}
    ordinary = {each.id for each in RULES if each.role is Role.DIAGNOSTIC}
    vanishing = {each.id for each in RULES if each.when.test is Asked.VANISHES}
    assert ordinary
    assert told == {each.id for each in RULES} - ordinary - vanishing


def test_only_series_that_the_store_has_are_asked_for() -> None:
    [question] = questions([rule("metric-xid-off-bus")])
    query = asked("metric-xid-off-bus", "DCGM_FI_DEV_XID_ERROR")
    assert "DCGM_FI_DEV_XID_ERRORS" not in query
    assert 'changes(DCGM_FI_DEV_XID_ERROR{cluster="alpha"}[150s]) > 0' in query
    assert '"relance_ask", "3:1"' in query
    assert question.is_possible(frozenset({"DCGM_FI_DEV_XID_ERROR"}))
    assert not question.is_possible(frozenset({"DCGM_FI_DEV_GPU_TEMP"}))


def test_a_share_cannot_be_asked_for_without_its_whole() -> None:
    [question] = questions([rule("metric-disk-full")])
    assert not question.is_possible(frozenset({"node_filesystem_avail_bytes"}))
    assert question.is_possible(frozenset({"node_filesystem_avail_bytes", "node_filesystem_size_bytes"}))


def test_bits_are_asked_for_one_by_one() -> None:
    query = asked("metric-hw-throttle", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
    assert [f"/ {bit}) % 2 == 1" in query for bit in (1, 4, 8, 64, 128)] == [False, False, True, True, True]


@pytest.mark.parametrize("each", RULES, ids=lambda each: each.id)
def test_every_query_is_whole(each: MetricRule) -> None:
    for question in questions([each]):
        query = expression(question, 0, question.names, NAMING, 600.0, 15.0)
        assert query.count("(") == query.count(")")
        assert query.count('cluster="alpha"') >= 1
        assert "None" not in query


def test_what_names_say_is_never_part_of_a_query() -> None:
    hostile = 'n1"} or vector(1) #'
    assert quoted(hostile) == '"n1\\"} or vector(1) #"'
    assert one_of(["n.1", "a|b"]) == "a\\|b|n\\.1"
    query = samples(["X"], "Hostname", [hostile], NAMING, 60.0)
    assert (
        query
        == '{cluster="alpha",__name__=~"X",Hostname=~"n1\\\\\\"\\\\}\\\\ or\\\\ vector\\\\(1\\\\)\\\\ \\\\#"}[60s]'
    )


def test_presence_asks_for_the_last_sample_and_the_number_of_series() -> None:
    query = presence(["A", "B"], NAMING)
    assert query.count("timestamp(") == 2
    assert "count by (Hostname, relance_ask)" in query


def test_standings_from_elsewhere_count_instead_of_the_series_given() -> None:
    cold = Series(name="DCGM_FI_DEV_SM_CLOCK", node="n1", labels={"gpu": "0"}, points=tuple(
        Point(1_767_225_600.0 + PEERS_STEP_S * step, 900.0, "", 0) for step in range(6)
    ))  # fmt: skip
    steps = {int(point.at // PEERS_STEP_S) for point in cold.points}

    def told(middle: float, count: int) -> int:
        standing = Standing(count=count, middle=middle, usual=middle, usual_count=count)
        standings = {cold.name: dict.fromkeys(steps, standing)}
        return len(evaluate([rule("metric-slow-clock")], [cold], READ_AT, standings))

    assert told(1980.0, 80_000) == 1
    assert told(900.0, 80_000) == 0
    assert told(1980.0, 2) == 0
    assert evaluate([rule("metric-slow-clock")], [cold], READ_AT) == ()


BEGAN = 1_767_225_600.0
"""When the samples of examples begin."""
UP = BEGAN - 100_000.0
"""A node's start, long before."""


@pytest.mark.parametrize(
    ("values", "hits"),
    [
        ((UP, UP - 1, UP), 0),  # a clock that jitters
        ((UP, BEGAN + 40), 1),
        ((UP, UP + 400), 0),  # a clock that was set: nobody starts before the sample that shows it up
        ((UP, UP - 1, UP + 30), 0),
        ((UP, float("nan"), BEGAN + 100), 1),
    ],
)
def test_a_counter_that_goes_back_a_little_did_not_begin_anew(values: tuple[float, ...], hits: int) -> None:
    rebooted = rule("metric-rebooted")
    text = "\n".join(f"{60 * step} n1 {value!r}" for step, value in enumerate(values))
    assert len(evaluate([rebooted], samples_of(text, rebooted), READ_AT)) == hits


def test_samples_that_are_no_number_do_not_move_the_median() -> None:
    slow = rule("metric-slow-clock")
    lines = [
        f"{15 * step} n{node} gpu=0 {value}"
        for step in range(6)
        for node, value in enumerate(("1980", "1980", "1980", "900", "nan", "nan"))
    ]
    found = evaluate([slow], samples_of("\n".join(lines), slow), READ_AT)
    assert [hit.node for hit in found] == ["n3"]
