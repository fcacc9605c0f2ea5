from __future__ import annotations

import pytest

from relance.domain.observations import Activity, OddDevice
from relance.sources.metrics.pictures import Device, activity, picture

NOW = 1_767_261_600.0
WORKING = {"percent": 92.0, "tensor": 0.4}
SPINNING = {"percent": 100.0, "tensor": 0.0}
IDLE = {"percent": 0.0, "tensor": 0.0}


def devices(nodes: int, gpus: int, **measured: float) -> dict[tuple[str, str], Device]:
    return {(f"n{node}", f"gpu{gpu}"): Device(at=NOW, **measured) for node in range(nodes) for gpu in range(gpus)}


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (Device(percent=92.0, tensor=0.4), Activity.WORKING),
        (Device(percent=100.0, tensor=0.4), Activity.WORKING),
        (Device(percent=100.0, tensor=0.0002), Activity.SPINNING),
        (Device(percent=0.0, tensor=0.0), Activity.IDLE),
        (Device(percent=100.0, watts=180.0, peak_watts=690.0), Activity.SPINNING),
        (Device(percent=100.0, watts=640.0, peak_watts=690.0), Activity.WORKING),
        (Device(percent=1.0, watts=70.0, peak_watts=690.0), Activity.IDLE),
        (Device(percent=100.0), Activity.WORKING),
        (Device(watts=70.0, peak_watts=690.0), None),
        (Device(), None),
    ],
)
def test_what_a_gpu_does_is_told_by_what_is_measured(device: Device, expected: Activity | None) -> None:
    assert activity(device) is expected


def test_one_gpu_that_idles_while_all_others_spin_is_odd() -> None:
    measured = devices(4, 8, **SPINNING)
    measured["n2", "gpu5"] = Device(at=NOW, **IDLE)
    seen = picture(measured, ["n0", "n1", "n2", "n3"], {}, NOW)
    assert seen is not None
    assert seen.counts == {Activity.SPINNING: 31, Activity.IDLE: 1}
    assert seen.odd == (OddDevice(node="n2", device="gpu5", activity=Activity.IDLE),)


def test_a_node_that_fell_silent_is_odd_as_a_whole() -> None:
    measured = devices(4, 8, **SPINNING)
    for gpu in range(8):
        measured["n1", f"gpu{gpu}"] = Device(at=NOW - 90.0, **WORKING)
    seen = picture(measured, ["n0", "n1", "n2", "n3"], {}, NOW)
    assert seen is not None
    assert seen.odd == (OddDevice(node="n1", device=None, activity=Activity.SILENT),)


def test_a_node_of_which_nothing_is_left_is_silent_with_as_many_gpus_as_it_had() -> None:
    seen = picture(devices(3, 8, **WORKING), ["n0", "n1", "n2", "n9"], {"n9": 8}, NOW)
    assert seen is not None
    assert seen.counts == {Activity.WORKING: 24, Activity.SILENT: 8}
    assert seen.odd == (OddDevice(node="n9", device=None, activity=Activity.SILENT),)


def test_a_node_that_never_had_metrics_is_not_silent() -> None:
    seen = picture(devices(3, 8, **WORKING), ["n0", "n1", "n2", "x9"], {}, NOW)
    assert seen is not None
    assert seen.counts == {Activity.WORKING: 24}


def test_where_half_does_this_and_half_does_that_none_is_odd() -> None:
    measured = devices(2, 8, **SPINNING) | {("n8", f"gpu{gpu}"): Device(at=NOW, **IDLE) for gpu in range(12)}
    seen = picture(measured, ["n0", "n1", "n8"], {}, NOW)
    assert seen is not None
    assert seen.odd == ()


def test_many_that_differ_here_and_there_are_not_odd() -> None:
    measured = devices(4, 8, **SPINNING)
    for node in range(4):
        for gpu in (0, 3):
            measured[f"n{node}", f"gpu{gpu}"] = Device(at=NOW, **WORKING)
    seen = picture(measured, ["n0", "n1", "n2", "n3"], {}, NOW)
    assert seen is not None
    assert seen.odd == ()


def test_without_any_sample_there_is_no_picture() -> None:
    assert picture({}, ["n0"], {}, NOW) is None
