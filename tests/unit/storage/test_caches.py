from __future__ import annotations

from relance.storage.caches import VersionedCache


def test_a_value_is_found_at_its_version_alone() -> None:
    cache = VersionedCache[str](100)
    cache.put(1, 5, "five", 10)
    assert [cache.get(1, version) for version in (4, 5, 6)] == [None, "five", None]
    assert cache.get(2, 5) is None


def test_a_late_older_version_does_not_replace_a_newer_one() -> None:
    cache = VersionedCache[str](100)
    cache.put(1, 5, "five", 10)
    cache.put(1, 4, "four", 10)
    assert cache.get(1, 5) == "five"


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache = VersionedCache[str](30)
    for stream_id in (1, 2, 3):
        cache.put(stream_id, 1, f"stream {stream_id}", 10)
    cache.get(1, 1)
    cache.put(4, 1, "stream 4", 10)
    assert [cache.get(stream_id, 1) for stream_id in (1, 2, 3, 4)] == ["stream 1", None, "stream 3", "stream 4"]


def test_a_value_that_is_too_large_is_not_kept() -> None:
    cache = VersionedCache[str](30)
    cache.put(1, 1, "large", 31)
    assert cache.get(1, 1) is None
    cache.put(2, 1, "small", 30)
    assert cache.get(2, 1) == "small"


def test_a_value_advances_from_the_version_before_and_no_other() -> None:
    cache = VersionedCache[str](100)
    cache.put(1, 2, "ab", 10)
    cache.advance(1, (1, 2), lambda value: value + "x", 10)
    cache.advance(1, (2, 4), lambda value: value + "cd", 10)
    cache.advance(9, (0, 1), lambda value: value + "x", 10)
    assert cache.get(1, 4) == "abcd"
    assert cache.get(9, 1) is None


def test_what_it_grew_by_counts() -> None:
    cache = VersionedCache[str](30)
    cache.put(1, 1, "a", 15)
    cache.advance(1, (1, 2), lambda value: value + "b", 16)
    assert cache.get(1, 2) is None


def test_cleared_it_holds_nothing_and_has_all_its_room() -> None:
    cache = VersionedCache[str](30)
    cache.put(1, 1, "a", 30)
    cache.clear()
    assert cache.get(1, 1) is None
    cache.put(2, 1, "b", 30)
    assert cache.get(2, 1) == "b"
