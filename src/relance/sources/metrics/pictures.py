"""What the GPUs of an attempt do, by utilisation, power and tensor activity. Pure.

Thresholds: a GPU that waits in a collective has a utilisation near 100 % and hardly any tensor activity (below 0.001,
signatures.md M026); where that is not measured, power far below what the card drew in the hour before tells it
(M024, M025: an idle card draws a small share of it; no public figure for waiting: half is between waiting and work).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from relance.domain.observations import Activity, DevicePicture, OddDevice

_FULL_PERCENT = 95.0
_BUSY_PERCENT = 5.0
_NO_TENSOR = 0.001
_LITTLE_POWER = 0.5
_FEW_ODD = 3
_FEW_SHARE = 1 / 8
_MOST_ODD_SHARE = 1 / 3
SILENT_S = 60.0
"""A node whose samples are so much older than those of others has gone silent."""


@dataclass(slots=True)
class Device:
    """What is measured of one GPU now; `peak_watts` is the most power of the hour before, `at` when it was measured."""

    percent: float | None = None
    watts: float | None = None
    peak_watts: float | None = None
    tensor: float | None = None
    at: float | None = None


Measured = Mapping[tuple[str, str], Device]
"""By node and device."""


def activity(device: Device) -> Activity | None:
    """What a GPU does; None when nothing tells."""
    percent, tensor = device.percent, device.tensor
    weak = bool(device.watts is not None and device.peak_watts and device.watts < _LITTLE_POWER * device.peak_watts)
    if percent is None:
        if tensor is None:
            return None
        return Activity.WORKING if tensor >= _NO_TENSOR else Activity.IDLE if weak else None
    if percent < _BUSY_PERCENT:
        return Activity.IDLE
    if percent < _FULL_PERCENT:
        return Activity.WORKING
    waits = tensor < _NO_TENSOR if tensor is not None else weak
    return Activity.SPINNING if waits else Activity.WORKING


def picture(
    measured: Measured, nodes: Sequence[str], usual_count: Mapping[str, int], now: float
) -> DevicePicture | None:
    """The picture of an attempt on these nodes; None when nothing is known of any of its GPUs.

    `usual_count` is how many GPUs a node is known to have: so many are silent with it.
    """
    newest = max((device.at for device in measured.values() if device.at is not None), default=None)
    if newest is None:
        return None
    doing: dict[tuple[str, str], Activity] = {}
    silent: dict[str, int] = {}
    for (node, name), device in measured.items():
        if device.at is None or newest - device.at > SILENT_S:
            silent[node] = silent.get(node, 0) + 1
            doing[node, name] = Activity.SILENT
        elif (does := activity(device)) is not None:
            doing[node, name] = does
    seen = {node for node, _ in measured}
    for node in nodes:
        if node not in seen and node in usual_count:
            for number in range(max(usual_count[node], 1)):
                doing[node, f"?{number}"] = Activity.SILENT
    if not doing:
        return None
    counts = Counter(doing.values())
    return DevicePicture(at=datetime.fromtimestamp(min(newest, now), UTC), counts=dict(counts), odd=_odd(doing, counts))


def _odd(doing: Mapping[tuple[str, str], Activity], counts: Counter[Activity]) -> tuple[OddDevice, ...]:
    """The few that do something else than all others: single GPUs, or whole nodes."""
    usual, agreeing = counts.most_common(1)[0]
    others = len(doing) - agreeing
    if not others or others > _MOST_ODD_SHARE * len(doing):
        return ()
    units = list(_units(doing, usual))
    if len(units) > _FEW_ODD and others > _FEW_SHARE * len(doing):
        return ()
    return tuple(sorted(units, key=lambda each: (each.node, each.device or "")))


def _units(doing: Mapping[tuple[str, str], Activity], usual: Activity) -> Iterable[OddDevice]:
    by_node: dict[str, dict[str, Activity]] = {}
    for (node, device), does in doing.items():
        by_node.setdefault(node, {})[device] = does
    for node, devices in by_node.items():
        odd = {device: does for device, does in devices.items() if does is not usual}
        if len(odd) == len(devices) and len(set(odd.values())) == 1:
            yield OddDevice(node=node, device=None, activity=next(iter(odd.values())))
        else:
            yield from (
                OddDevice(node=node, device=None if device.startswith("?") else device, activity=does)
                for device, does in odd.items()
            )
