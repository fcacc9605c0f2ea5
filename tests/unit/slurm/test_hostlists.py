from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.slurm.errors import BadArgumentError, SlurmError, UnreadableError
from relance.slurm.hostlists import compress, expand

NAMES = st.from_regex(r"[a-z]{1,4}(?:-[0-9]{1,3})?[0-9]{0,4}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu001", ("gpu001",)),
        ("gpu[001-003,7],x1", ("gpu001", "gpu002", "gpu003", "gpu7", "x1")),
        ("a[1-2]b[01-02]", ("a1b01", "a1b02", "a2b01", "a2b02")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("rack[1-2]-n5.site", ("rack1-n5.site", "rack2-n5.site")),
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
    ],
)
def test_a_list_becomes_the_names_that_scontrol_prints(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["gpu[", "gpu]", "a[[1]]", "a[3-1]", "a[x]", "a[]", "a,,b", "a b", "a;b", ",", "a[1-]"]
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        expand(text)


@pytest.mark.parametrize("text", ["a[0-65536]", "a[0-999]b[0-999]", "a[0-999999999]", "a[0-40000],b[0-40000]"])
def test_a_list_of_more_names_than_any_cluster_has_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError, match="more than 65536"):
        expand(text)


def test_the_largest_list_is_read() -> None:
    assert len(expand("a[0-65535]")) == 65_536


def test_names_of_one_width_become_ranges() -> None:
    names = ["gpu003", "gpu001", "gpu002", "gpu007", "x", "gpu10", "gpu001"]
    assert compress(names) == "x,gpu10,gpu[001-003,007]"


@pytest.mark.parametrize("name", ["", "a b", "-x", "a,b", "a[1]", "a;b", "$(x)", "ü1", "a\n"])
def test_what_is_no_name_enters_no_list(name: str) -> None:
    with pytest.raises(BadArgumentError):
        compress([name])


@given(st.sets(NAMES, min_size=1, max_size=40))
def test_a_compressed_list_expands_to_the_same_names(names: set[str]) -> None:
    assert set(expand(compress(names))) == names


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        expand(text)
    except SlurmError:
        return
