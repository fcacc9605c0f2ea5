from __future__ import annotations

from relance.rules import Pack
from relance.rules.keeping import kept_pack
from tests.unit.rules.packs import packaged


class Shelf:
    """A cache in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        return self.kept.get(name)

    def put(self, name: str, data: bytes) -> None:
        self.kept[name] = data


def not_again() -> Pack:
    raise AssertionError("it was kept")


def test_a_pack_that_was_kept_is_the_same_pack() -> None:
    shelf, texts = Shelf(), {"ours.yaml": "group: site"}
    assert kept_pack(texts, shelf, packaged) == packaged()
    assert kept_pack(texts, shelf, not_again) == packaged()


def test_other_files_settings_or_code_are_read_anew() -> None:
    shelf, other = Shelf(), Pack(rules=())
    kept_pack({"ours.yaml": "group: site"}, shelf, packaged)
    assert kept_pack({"ours.yaml": "group: other"}, shelf, lambda: other) == other
    assert kept_pack({"theirs.yaml": "group: site"}, shelf, lambda: other) == other
    assert kept_pack({"ours.yaml": "group: site"}, shelf, lambda: other, settings=({}, ("xid-31",))) == other
    assert kept_pack({"ours.yaml": "group: site"}, shelf, lambda: other, settings=({"xid-31": 0.1}, ())) == other
    assert kept_pack({"ours.yaml": "group: site"}, shelf, lambda: other, version="2") == other


def test_what_is_no_pack_is_read_anew() -> None:
    shelf, texts = Shelf(), {"ours.yaml": "group: site"}
    kept_pack(texts, shelf, packaged)
    (name,) = shelf.kept
    for damaged in (b"", b"{}", b"[1]", b'{"rules": 3}'):
        shelf.kept[name] = damaged
        assert kept_pack(texts, shelf, packaged) == packaged()
