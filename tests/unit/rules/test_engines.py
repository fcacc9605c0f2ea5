from __future__ import annotations

from relance.rules.engines import Re2Engine
from relance.rules.patterns import Pattern


def find(data: bytes, *patterns: str) -> list[tuple[int, int, int]]:
    return Re2Engine([Pattern(text=pattern) for pattern in patterns]).find(data)


def test_each_pattern_and_line_is_found_once_in_order() -> None:
    data = b"nothing\nred red\nblue red\n\nblue"
    assert find(data, "red", "blue") == [(0, 8, 15), (0, 16, 24), (1, 16, 24), (1, 26, 30)]


def test_the_ends_of_a_line_are_those_of_the_line_and_not_of_the_text() -> None:
    assert find(b"x\nred\nred x\n", "^red$") == [(0, 2, 5)]


def test_no_match_reaches_into_the_next_line() -> None:
    assert find(b"red\nblue\n", r"red\s+blue", "red[^x]blue", "red(?:.|\\n)*blue") == []


def test_any_byte_is_text() -> None:
    assert find(b"\xff\xfered\x00\xff\n", "red.\\xff$") == [(0, 0, 7)]


def test_letters_match_in_either_case_where_asked() -> None:
    engine = Re2Engine([Pattern(text="red", ignore_case=True), Pattern(text="red")])
    assert engine.find(b"RED\n") == [(0, 0, 3)]


def test_no_patterns_and_no_text_find_nothing() -> None:
    assert find(b"text\n") == []
    assert find(b"", "red") == []
