from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relance.sources.loki.queries import halves, query_of, quoted
from relance.sources.stores.backs import Selection
from relance.testing.loki_double.logql import LogQuery, parse
from relance.testing.loki_double.tokens import tokens_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = TEXTS.filter(bool)


@given(TEXTS)
def test_a_string_is_read_as_it_was_meant(text: str) -> None:
    (found, _) = tokens_of(quoted(text))
    assert (found.kind, found.text) == ("string", text)


@given(st.lists(VALUES, min_size=1, max_size=4), VALUES)
def test_a_selection_takes_its_values_and_no_others(values: list[str], other: str) -> None:
    query = parse(query_of(Selection(labels={"node": tuple(values)})))
    assert isinstance(query, LogQuery)
    assert all(query.selects({"node": value}) for value in values)
    assert query.selects({"node": other}) == (other in values)


@given(st.lists(TEXTS, min_size=2, max_size=8))
def test_halves_part_lines_and_leave_none_out(lines: list[str]) -> None:
    parts = halves(lines)
    if parts is None:
        assert len(set(lines)) == 1
        return
    queries = [parse('{a="b"}' + part) for part in parts]
    for line in lines:
        assert sum(isinstance(query, LogQuery) and query.run(line, {}) is not None for query in queries) == 1
    for query in queries:
        assert any(isinstance(query, LogQuery) and query.run(line, {}) is not None for line in lines)


def test_lines_are_asked_for_by_a_pattern() -> None:
    wanted = Selection(labels={"cluster": ("alpha",), "job_id": ("1", "2")}, lines='say "x"|\\d')
    assert query_of(wanted) == r'{cluster="alpha", job_id=~"1|2"} |~ "say \"x\"|\\d"'
