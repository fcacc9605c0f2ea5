from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from relance.rules.engines import EngineMaker, Re2Engine
from relance.rules.hyperscans import HyperscanEngine, best_engine
from relance.rules.patterns import Pattern


class Shelf:
    """A cache in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        return self.kept.get(name)

    def put(self, name: str, data: bytes) -> None:
        self.kept[name] = data


@pytest.fixture(params=[Re2Engine, HyperscanEngine])
def engine(request: pytest.FixtureRequest) -> EngineMaker:
    made: EngineMaker = request.param
    return made


def find(engine: EngineMaker, data: bytes, *patterns: str) -> list[tuple[int, int, int]]:
    return engine([Pattern(text=pattern) for pattern in patterns]).find(data)


def test_each_pattern_and_line_is_found_once_in_order(engine: EngineMaker) -> None:
    data = b"nothing\nred red\nblue red\n\nblue"
    assert find(engine, data, "red", "blue") == [(8, 15, 0), (16, 24, 0), (16, 24, 1), (26, 30, 1)]


def test_the_ends_of_a_line_are_those_of_the_line_and_not_of_the_text(engine: EngineMaker) -> None:
    assert find(engine, b"x\nred\nred x\n", "^red$") == [(2, 5, 0)]


def test_no_match_reaches_into_the_next_line(engine: EngineMaker) -> None:
    patterns = (r"red\s+blue", "red[^x]blue", "red(?:.|\\n)*blue", r"red\Wblue", r"red[\s,]*blue", r"red\b.{0,80}blue")
    assert find(engine, b"red\nblue\n", *patterns) == []


def test_a_line_that_only_nearly_matches_is_not_found(engine: EngineMaker) -> None:
    data = b"peer " + b"x" * 90 + b" gone\nstarted by peer gone\npeer is gone\n"
    assert find(engine, data, "peer .{0,20}gone", r"^(?:\d+: )?peer is") == [
        (101, 121, 0),
        (122, 134, 0),
        (122, 134, 1),
    ]


def test_a_line_is_found_wherever_it_stands(engine: EngineMaker) -> None:
    pattern = r"\[(?P<rank>\d+)\] (?:finished collective #\d+, but didn't join|joined but didn't finish) collective"
    line = b"- [3] finished collective #16, but didn't join collective #17\n"
    assert find(engine, line, pattern) == [(0, len(line) - 1, 0)]
    assert find(engine, b"x\n" + line, pattern) == [(2, len(line) + 1, 0)]


def test_any_byte_is_text(engine: EngineMaker) -> None:
    assert find(engine, b"\xff\xfered\x00\xff\n", "red.\\xff$") == [(0, 7, 0)]


def test_letters_match_in_either_case_where_asked(engine: EngineMaker) -> None:
    made = engine([Pattern(text="red[^a]", ignore_case=True), Pattern(text="red"), Pattern(text="(?i:red)!")])
    assert made.find(b"RED!\nREDA\n") == [(0, 4, 0), (0, 4, 2)]


def test_no_patterns_and_no_text_find_nothing(engine: EngineMaker) -> None:
    assert find(engine, b"text\n") == []
    assert find(engine, b"", "red") == []


def test_a_storm_loses_no_line(engine: EngineMaker) -> None:
    lines = [b"%d: red is lost" % number for number in range(5000)]
    found = find(engine, b"\n".join(lines), "red is", "lost")
    assert len(found) == 10_000


def test_what_hyperscan_does_not_take_is_found_by_re2_beside_it() -> None:
    engine = HyperscanEngine([Pattern(text="red"), Pattern(text="[[:digit:]]+ blue"), Pattern(text=r"\pL! x")])
    assert engine.left_to_re2 == (1, 2)
    assert engine.find(b"7 blue red\na! x\n") == [(0, 10, 0), (0, 10, 1), (11, 15, 2)]


def test_a_compiled_database_is_taken_from_the_cache() -> None:
    shelf, patterns = Shelf(), [Pattern(text="red never seen before"), Pattern(text="[[:digit:]] blue")]
    HyperscanEngine(patterns, shelf)
    (name,) = shelf.kept
    assert HyperscanEngine(patterns, shelf).find(b"a red never seen before\n7 blue\n") == [(0, 23, 0), (24, 30, 1)]
    shelf.kept[name] = b"0\n\nno database"
    assert HyperscanEngine(patterns, shelf).find(b"red never seen before") == [(0, 21, 0)]


def test_other_patterns_are_not_taken_from_the_cache() -> None:
    shelf = Shelf()
    HyperscanEngine([Pattern(text="red")], shelf)
    assert HyperscanEngine([Pattern(text="red", ignore_case=True)], shelf).find(b"RED") == [(0, 3, 0)]


def test_many_threads_may_ask_one_engine() -> None:
    engine = best_engine()([Pattern(text="red"), Pattern(text="gr.{0,40}en")])
    data = b"grrrr and then some green\nred\n" * 2000
    alone = engine.find(data)
    with ThreadPoolExecutor(4) as pool:
        assert all(found == alone for found in pool.map(engine.find, [data] * 16))


def test_without_the_wheel_re2_is_chosen_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert best_engine()([Pattern(text="red")]).name.startswith("hyperscan ")
    monkeypatch.setattr("relance.rules.hyperscans.IS_THERE", False)
    assert best_engine()([Pattern(text="red")]).name == "google-re2"
