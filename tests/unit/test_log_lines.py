from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from relance.domain.log_labels import NO_LABEL, read_label
from relance.domain.log_texts import LogText, line_end, line_start
from relance.domain.log_times import dated, read_time

READ_AT = datetime(2026, 6, 12, 8, 0, tzinfo=UTC)


def test_plain_text_is_left_as_it_is() -> None:
    raw = b"one\ntwo\n"
    assert LogText(raw).text is raw


def test_a_carriage_return_ends_a_line_and_a_nul_becomes_a_space() -> None:
    assert LogText(b"10%\r20%\rdone\0\0x\n").text == b"10%\n20%\ndone  x\n"


def test_colour_codes_and_titles_vanish_and_the_raw_position_of_a_line_is_still_known() -> None:
    raw = b"\x1b]0;title\x07first\n\x1b[31mstep:\x1b[0m 1\n\x1b[1mlast\n"
    log = LogText(raw)
    assert log.text == b"first\nstep: 1\nlast\n"
    assert raw[log.raw_start(6) :].startswith(b"\x1b[31mstep")
    assert raw[log.raw_start(14) :].startswith(b"\x1b[1mlast")
    assert log.raw_start(0) == 0


def test_raw_positions_are_right_over_many_coloured_lines_in_any_order() -> None:
    raw = b"".join(b"\x1b[3%dm%d\x1b[0m %s\n" % (at % 8, at, b"x" * (at % 50)) for at in range(2000))
    log = LogText(raw)
    starts = [log.text.index(b"\n%d " % at) + 1 for at in (1999, 3, 1000, 1001)]
    assert [raw[log.raw_start(start) :].split(b"\x1b")[1] for start in starts] == [
        b"[37m1999",
        b"[33m3",
        b"[30m1000",
        b"[31m1001",
    ]


def test_the_bounds_of_a_line_are_its_newlines_or_the_ends() -> None:
    assert (line_start(b"ab\ncd", 4), line_end(b"ab\ncd", 4), line_end(b"ab\ncd", 1)) == (3, 5, 2)


@pytest.mark.parametrize(
    ("line", "rank", "rest"),
    [
        (b"3: hello", 3, b"hello"),
        (b" 12: hello", 12, b"hello"),
        (b"007: ", 7, b""),
        (b"[rank3]: Traceback", 3, b"Traceback"),
        (b"[rank3]:[E611 04:33:52.100 x.cpp:1]", 3, b"[E611 04:33:52.100 x.cpp:1]"),
        (b"[rank 4] text", 4, b"text"),
        (b"[5]: text", 5, b"text"),
        (b"[1,9]<stderr>:text", 9, b"text"),
        (b"(head, rank=2, pid=77, ip=192.0.2.4) text", 2, b"text"),
        (b"2: [rank19]:   File", 19, b"  File"),
        (b"2026-06-11T04:10:02.118Z: [1,0]<stdout>:resume", 0, b"resume"),
        (b"2026-06-11T04:10:02.118999Z stderr F [rank6]: x", 6, b"x"),
        (b" [2026-05-02 11:02:07.418802] iteration", None, b"iteration"),
        (b"12:34:56 text", None, b"12:34:56 text"),
        (b"    12: text", 12, b"text"),
        (b"plain text", None, b"plain text"),
    ],
)
def test_labels_are_read_and_their_length_is_known(line: bytes, rank: int | None, rest: bytes) -> None:
    label = read_label(line)
    assert (label.best_rank, line[label.length :]) == (rank, rest)


def test_the_innermost_label_names_the_rank_and_the_task_is_kept_beside_it() -> None:
    label = read_label(b"2: [rank19]: x")
    assert (label.rank, label.task, label.key) == (19, 2, "task=2 rank=19")


def test_a_role_label_names_a_local_rank_only() -> None:
    label = read_label(b"[default3]:text")
    assert (label.best_rank, label.local_rank, label.key) == (None, 3, "local=3")


def test_writers_without_rank_still_tell_apart() -> None:
    assert read_label(b"(Worker pid=9, ip=192.0.2.1) x").key == "actor=Worker pid=9"
    assert read_label(b"[gpu012] x").host == "gpu012"


def test_nccls_prefix_gives_host_process_and_device() -> None:
    label = read_label(b"4: cn31-a:2210:2277 [6] transport/net_ib.cc:98 NCCL WARN text")
    assert (label.host, label.pid, label.gpu, label.best_rank) == ("cn31-a", "2210", "6", 4)


def test_a_line_without_label_gives_none() -> None:
    assert read_label(b"Traceback (most recent call last):") is NO_LABEL


@pytest.mark.parametrize(
    ("line", "at"),
    [
        (b"2026-06-11T04:10:02.118Z: x", datetime(2026, 6, 11, 4, 10, 2, 118000, UTC)),
        (b"2026-06-11 04:10:02,118 - x", datetime(2026, 6, 11, 4, 10, 2, 118000, UTC)),
        (b" [2026-06-11 04:10:02] iteration", datetime(2026, 6, 11, 4, 10, 2, 0, UTC)),
        (b"2026-06-11T04:10:02+02:00 x", datetime(2026, 6, 11, 2, 10, 2, 0, UTC)),
        (b"2026-06-11T04:10:02-0530 x", datetime(2026, 6, 11, 9, 40, 2, 0, UTC)),
        (b"3: [rank3]:[E611 04:33:52.100118 P.cpp:6] x", datetime(2026, 6, 11, 4, 33, 52, 100118, UTC)),
        (b"[E1119 04:33:52.5 P.cpp:6] x", datetime(2025, 11, 19, 4, 33, 52, 500000, UTC)),
        (b"E0611 04:33:52.100000 99 torch/x.py:1] x", datetime(2026, 6, 11, 4, 33, 52, 100000, UTC)),
        (b"Jun 11 04:33:52 n1 kernel: x", datetime(2026, 6, 11, 4, 33, 52, 0, UTC)),
        (b"Dec 31 23:59:59 n1 kernel: x", datetime(2025, 12, 31, 23, 59, 59, 0, UTC)),
        (b"[Thu Jun 11 04:33:52 2026] NVRM", datetime(2026, 6, 11, 4, 33, 52, 0, UTC)),
        (b"slurmstepd: *** JOB 1 ON n1 CANCELLED AT 2026-06-11T04:33:52 ***", datetime(2026, 6, 11, 4, 33, 52, 0, UTC)),
        (b"  time      : 2026-06-11_04:33:52", datetime(2026, 6, 11, 4, 33, 52, 0, UTC)),
        (b"[12345.678901] NVRM: Xid", None),
        (b"saved /runs/2026-06-11_04:33:52/step-3", None),
        (b"2026-13-41 04:33:52 x", None),
        (b"2027-06-11 04:33:52 x", None),
        (b"[E1345 04:33:52.1 P.cpp:6] x", None),
        (b"no time at all", None),
    ],
)
def test_the_time_of_a_line_is_read_in_utc(line: bytes, at: datetime | None) -> None:
    assert read_time(line, read_at=READ_AT) == at


def test_a_time_without_offset_is_read_in_the_sites_zone() -> None:
    zone = timezone(timedelta(hours=2))
    assert read_time(b"2026-06-11 04:10:02 x", read_at=READ_AT, zone=zone) == datetime(2026, 6, 11, 2, 10, 2, 0, UTC)


def test_a_year_is_found_across_new_year_and_on_a_leap_day() -> None:
    new_year = datetime(2026, 12, 31, 23, 30, tzinfo=UTC)
    assert read_time(b"[I101 00:10:00.0 x] y", read_at=new_year) == datetime(2027, 1, 1, 0, 10, tzinfo=UTC)
    march = datetime(2028, 3, 1, tzinfo=UTC)
    assert read_time(b"Feb 29 10:00:00 n", read_at=march) == datetime(2028, 2, 29, 10, tzinfo=UTC)


@pytest.mark.parametrize("line", [b"9999-12-31T23:59:59Z never expires", b"0001-01-01T00:00:00+14:00 unset"])
def test_a_date_that_stands_for_never_is_no_time(line: bytes) -> None:
    assert dated(line) is None
