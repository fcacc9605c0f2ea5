from __future__ import annotations

import pytest

from relance.watching.evidence.prometheus import read_answer, read_text
from relance.watching.evidence.samples import Samples
from relance.watching.evidence.telemetry import column_of, heading_of, read_table

XID = "DCGM_FI_DEV_XID_ERRORS"
AVAILABLE, TOTAL = "node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes"
WANTED = frozenset(
    {XID, AVAILABLE, TOTAL, "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"}
)
NODES = ("gpu003", "gpu004")


def scraped(text: str, name: str = "m.prom", node: str | None = None) -> Samples:
    samples = Samples(WANTED)
    read_text(name, [text.encode()], samples, NODES, node)
    return samples


def table(text: str, name: str = "t.csv") -> tuple[Samples, bytes]:
    samples = Samples(WANTED)
    return samples, read_table(name, [text.encode()], samples, NODES, None)


def points(samples: Samples) -> dict[tuple[str, str | None, str], list[tuple[float, float, int]]]:
    return {
        (each.name, each.node, each.labels.get("gpu", "")): [(p.at, p.value, p.line) for p in each.points]
        for each in samples.series()
    }


def test_a_sample_has_its_node_device_value_and_line() -> None:
    text = f'# HELP {XID} last\n{XID}{{gpu="3",Hostname="gpu003.cluster"}} 79\nother 1\n'
    (series,) = scraped(text).series()
    assert (series.name, series.node, series.labels["gpu"], series.timed) == (XID, "gpu003", "3", False)
    assert [(point.value, point.line) for point in series.points] == [(79.0, 2)]


@pytest.mark.parametrize(
    ("labels", "node"),
    [('instance="gpu004:9400"', "gpu004"), ('node="n9"', "n9"), ('gpu="1"', "gpu003"), ('Hostname=""', "gpu003")],
)
def test_labels_name_the_node_else_the_file_does(labels: str, node: str) -> None:
    (series,) = scraped(f"{XID}{{{labels}}} 1\n", node="gpu003").series()
    assert series.node == node


def test_scrapes_in_one_file_follow_each_other() -> None:
    (series,) = scraped(f"{XID} 0\n{XID} 0\n{XID} 79\n").series()
    assert [point.value for point in series.points] == [0.0, 0.0, 79.0]
    assert not series.timed


def test_times_stand_behind_values_in_comments_or_in_the_name() -> None:
    (behind,) = scraped(f"{XID} 0 1767225600000\n{XID} 79 1767225660000\n").series()
    (said,) = scraped(f"# scrape 2026-01-01T00:00:00Z\n{XID} 0\n# at 1767225660\n{XID} 79\n").series()
    assert [point.at for point in behind.points] == [point.at for point in said.points] == [1767225600.0, 1767225660.0]
    (named,) = scraped(f"{XID} 79\n", name="gpu003-20260101T000000.prom").series()
    assert (named.timed, named.points[0].at) == (True, 1767225600.0)


def test_odd_values_and_lines_are_passed_over() -> None:
    samples = Samples(WANTED)
    text = f'{XID} NaN\n{XID} +Inf\n{XID} x\n{XID}{{ 1\n\x00\xff\n{XID}{{a="b\\"c"}} 4\n'
    assert read_text("m", [text.encode("latin-1")], samples, (), None) == 3
    assert len(samples.series()) == 2


def test_an_answer_of_the_query_interface_is_read() -> None:
    document = {"data": {"result": [{"metric": {"__name__": XID, "gpu": "1", "Hostname": "gpu003"},
                                     "values": [[1767225600, "0"], [1767225660, "79"], "odd"]}]}}  # fmt: skip
    samples = Samples(WANTED)
    assert read_answer("a.json", document, samples, NODES, None)
    assert points(samples) == {(XID, "gpu003", "1"): [(1767225600.0, 0.0, 1), (1767225660.0, 79.0, 1)]}
    assert not read_answer("a.json", {"data": 1}, samples, NODES, None)


def test_a_table_of_gpus_is_read() -> None:
    samples, notes = table(
        "ts,node,gpu,temp_c,power_w,clock_event_reasons\n# maintenance at noon\n"
        "2026-01-01T00:00:00Z,gpu003,3,58,688,0x4\nbroken\n2026-01-01T00:01:00Z,gpu003,3,91 C,211,0x48\n"
    )
    assert points(samples) == {
        ("DCGM_FI_DEV_GPU_TEMP", "gpu003", "3"): [(1767225600.0, 58.0, 3), (1767225660.0, 91.0, 5)],
        ("DCGM_FI_DEV_POWER_USAGE", "gpu003", "3"): [(1767225600.0, 688.0, 3), (1767225660.0, 211.0, 5)],
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gpu003", "3"): [(1767225600.0, 4.0, 3), (1767225660.0, 72.0, 5)],
    }
    assert notes == b"\n# maintenance at noon\n\n\n", "in its place"


@pytest.mark.parametrize(
    ("header", "row", "free", "total"),
    [
        ("ts,node,mem_used_gib,mem_total_gib", "2026-01-01T00:00:00Z,gpu003,1,4", 3 * 1024**3, 4 * 1024**3),
        ("time;host;mem_available_mb;mem_total_mb", "1767225600;gpu003;100;400", 100e6, 400e6),
        ("timestamp,node,memory_util_pct", "1767225600000,gpu003,90", 10.0, 100.0),
    ],
)
def test_what_is_free_of_a_hosts_memory_is_read_however_it_is_said(
    header: str, row: str, free: float, total: float
) -> None:
    samples, _ = table(f"{header}\n{row}\n")
    found = points(samples)
    assert found[AVAILABLE, "gpu003", ""][0][0] == 1767225600.0
    assert found[AVAILABLE, "gpu003", ""][0][1] == pytest.approx(free)
    assert found[TOTAL, "gpu003", ""][0][1] == pytest.approx(total)


def test_a_long_table_is_read() -> None:
    samples, _ = table(f"time,instance,metric,value\n2026-01-01T00:00:00Z,gpu003,{XID},79\n")
    assert points(samples) == {(XID, "gpu003", ""): [(1767225600.0, 79.0, 2)]}


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("temperature.gpu", "DCGM_FI_DEV_GPU_TEMP"),
        ("power.draw [W]", "DCGM_FI_DEV_POWER_USAGE"),
        ("clocks.sm [MHz]", "DCGM_FI_DEV_SM_CLOCK"),
        ("utilization.gpu [%]", "DCGM_FI_DEV_GPU_UTIL"),
        ("sm_clock_mhz", "DCGM_FI_DEV_SM_CLOCK"),
        ("symbol_error", "node_infiniband_symbol_error_total"),
        ("DCGM_FI_DEV_ANYTHING", "DCGM_FI_DEV_ANYTHING"),
        ("step_time_s", None),
        ("loss", None),
    ],
)
def test_names_of_columns(name: str, series: str | None) -> None:
    column = column_of(name)
    assert (column.series if column else None) == series


def test_a_table_without_time_or_values_is_none() -> None:
    assert heading_of("step,loss,node") is None
    events = heading_of("time,id,severity,object,text")
    assert events is not None
    assert not events.has_samples


def test_equal_samples_take_no_room() -> None:
    rows = "".join(f"{1767225600 + at},gpu003,40\n" for at in range(10_000))
    samples, _ = table(f"time,node,temp_c\n{rows}")
    ((_, found),) = points(samples).items()
    assert [at for at, _, _ in found] == [1767225600.0, 1767225600.0 + 9_999]
    assert samples.count <= 3


@pytest.mark.parametrize("at", ["99999999999999999", "-99999999999"])
def test_a_sample_of_no_time_that_there_is_is_left_out(at: str) -> None:
    assert scraped(f'# TYPE {XID} gauge\n{XID}{{gpu="1",Hostname="gpu003"}} 79 {at}\n').series() == ()
