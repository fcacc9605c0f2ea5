from __future__ import annotations

import pytest

from relance.rules.tracebacks import MOST_IDLE_LINES, MOST_OPEN
from tests.unit.rules.packs import by_rule, hits, scan, scan_pieces

PLAIN = b"""\
Traceback (most recent call last):
  File "/repo/train.py", line 221, in main
    step(batch)
  File "/repo/model.py", line 40, in step
    return torch.matmul(a, b)
           ^^^^^^^^^^^^^^^^^^
  File "/opt/venv/lib/python3.12/site-packages/torch/functional.py", line 9, in matmul
    return _C.matmul(a, b)
acme.errors.BadShard: shard 7 has no index
"""


def labelled(text: bytes, label: bytes) -> bytes:
    return b"".join(label + line + b"\n" for line in text.splitlines())


def interleaved(*texts: bytes) -> bytes:
    rows = [text.splitlines(keepends=True) for text in texts]
    longest = max(len(each) for each in rows)
    return b"".join(each[at] for at in range(longest) for each in rows if at < len(each))


def test_the_exception_gets_the_innermost_frame_of_the_jobs_own_code() -> None:
    (hit,) = scan(PLAIN).hits
    assert hit.rule == "python-exception"
    assert hit.captures == {
        "exception": "acme.errors.BadShard",
        "message": "shard 7 has no index",
        "frame": "/repo/model.py:40 in step",
    }
    assert hit.line == 9
    assert hit.excerpt.splitlines()[-1] == "acme.errors.BadShard: shard 7 has no index"
    assert '  File "/repo/model.py", line 40, in step' in hit.excerpt.splitlines()


def test_without_own_code_the_innermost_frame_stands() -> None:
    text = PLAIN.replace(b"/repo/", b"/opt/venv/lib/python3.12/site-packages/lib/")
    assert scan(text).hits[0].captures["frame"].endswith("torch/functional.py:9 in matmul")


@pytest.mark.parametrize(
    "label", [b"3: ", b"[rank3]: ", b"1: [rank3]: ", b"[1,3]<stderr>:", b"2026-05-02T11:12:00.1Z [rank3]: "]
)
def test_labels_do_not_matter(label: bytes) -> None:
    (hit,) = scan(labelled(PLAIN, label)).hits
    assert (hit.rank, hit.captures["frame"]) == (3, "/repo/model.py:40 in step")


def test_ranks_may_write_in_between() -> None:
    ranks = [labelled(PLAIN.replace(b"shard 7", b"shard %d" % rank), b"%d: " % rank) for rank in range(8)]
    found = scan(interleaved(*ranks)).hits
    assert [(hit.rank, hit.captures["message"][:8], hit.captures["frame"]) for hit in found] == [
        (rank, f"shard {rank} "[:8], "/repo/model.py:40 in step") for rank in range(8)
    ]


def test_bounds_of_blocks_do_not_matter() -> None:
    text = interleaved(labelled(PLAIN, b"[rank0]: "), labelled(PLAIN, b"[rank1]: "), b" iteration 1/5 |\n" * 9)
    ends = [at + 1 for at, byte in enumerate(text) if byte == 10]
    whole = hits(scan_pieces([text]))
    assert len(whole) == 2
    for cut in ends:
        assert hits(scan_pieces([text[:cut], text[cut:]])) == whole
    assert hits(scan_pieces([text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)])) == whole


def test_a_specific_rule_takes_the_frame_too_and_the_general_one_steps_back() -> None:
    text = PLAIN.replace(
        b"acme.errors.BadShard: shard 7 has no index", b"RuntimeError: CUDA error: unspecified launch failure"
    )
    result = scan(text)
    assert result.counts == {"cuda-launch-failure": 1}
    assert result.hits[0].captures["frame"] == "/repo/model.py:40 in step"
    assert result.hits[0].captures["exception"] == "RuntimeError"


def test_a_chain_of_exceptions_is_marked_after_its_first() -> None:
    text = (
        PLAIN.replace(b"acme.errors.BadShard: shard 7 has no index", b"KeyError: 'w'")
        + b"\nDuring handling of the above exception, another exception occurred:\n\n"
        + PLAIN
    )
    first, second = scan(labelled(text, b"[rank2]: ")).hits
    assert "chained" not in first.captures
    assert (second.captures["chained"], second.rule) == ("yes", "python-exception")


def test_a_syntax_error_and_an_exception_without_text_end_a_traceback() -> None:
    text = (
        b'Traceback (most recent call last):\n  File "/repo/a.py", line 3\n    x = = 1\n        ^\nSyntaxError: bad\n'
    )
    assert scan(text).hits[0].captures["frame"] == "/repo/a.py:3 in <file>"
    text = b'Traceback (most recent call last):\n  File "/repo/a.py", line 3, in f\n    assert x\nAssertionError\n'
    assert scan(text).hits[0].rule == "python-assertion"


def test_an_exception_group_is_read_through_its_drawing() -> None:
    text = (
        b"  + Exception Group Traceback (most recent call last):\n"
        b'  |   File "/repo/a.py", line 3, in f\n'
        b"  |     go()\n"
        b"  | ExceptionGroup: two of them (2 sub-exceptions)\n"
        b"  +-+---------------- 1 ----------------\n"
        b"    | Traceback (most recent call last):\n"
        b'    |   File "/repo/b.py", line 9, in g\n'
        b"    | acme.Broken: one\n"
        b"    +------------------------------------\n"
    )
    assert [hit.captures["frame"] for hit in by_rule(scan(text), "python-exception")] == [
        "/repo/a.py:3 in f",
        "/repo/b.py:9 in g",
    ]


def test_other_lines_of_the_same_writer_do_not_end_a_traceback() -> None:
    text = PLAIN.replace(b"    step(batch)\n", b"    step(batch)\nINFO: still here\n10:15 loading\n")
    assert scan(text).hits[0].captures["frame"] == "/repo/model.py:40 in step"


def test_a_traceback_that_never_ends_is_given_up() -> None:
    begun = b'[rank0]: Traceback (most recent call last):\n[rank0]:   File "/repo/a.py", line 3, in f\n'
    others = b"[rank1]: fine\n" * (MOST_IDLE_LINES + 1001)
    (hit,) = scan(begun + others + b"[rank0]: KeyError: 'x'\n").hits
    assert "frame" not in hit.captures


def test_no_more_than_a_few_open_tracebacks_are_carried() -> None:
    begun = b"".join(
        b'%d: Traceback (most recent call last):\n%d:   File "/a%d.py", line 3, in f\n' % (at, at, at)
        for at in range(200)
    )
    ended = b"".join(b"%d: KeyError: 'x'\n" % at for at in range(200))
    found = hits(scan_pieces([begun, ended]))
    assert len(found) == 200
    assert sum("frame" in hit.captures for hit in found) == MOST_OPEN


def test_secrets_in_code_lines_do_not_reach_excerpt_or_state() -> None:
    text = PLAIN.replace(b"step(batch)", b'login(password="hunter2")')
    (hit,) = hits(scan_pieces([text[:120], text[120:]]))
    assert "hunter2" not in hit.excerpt
