"""Tables of samples, such as `telemetry.csv`: a time, a node, perhaps a device, and values under names of any kind."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from relance.rules.metric_rules import Point
from relance.watching.evidence import values
from relance.watching.evidence.kinds import columns_of, is_time_column
from relance.watching.evidence.samples import Samples

_NODES = frozenset({"node", "host", "hostname", "nodename", "instance", "machine", "server", "node_name"})
_GPUS = frozenset({"gpu", "gpu_index", "gpu_id", "gpu_idx", "index", "local_rank"})
_DEVICES = frozenset(
    {"device", "dev", "nic", "hca", "interface", "ifname", "port", "mountpoint", "mount", "pod", "uuid"}
)
_LONG_NAMES = frozenset({"metric", "name", "series", "__name__", "field"})
_LONG_VALUES = frozenset({"value", "val"})
_UNIT = re.compile(r"\s*[\[(]([^\])]*)[\])]\s*$")
_VALUE = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]{1,16}|(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][-+]?\d{1,3})?)")
_GIB, _MIB, _KIB, _GB, _MB = 1024.0**3, 1024.0**2, 1024.0, 1e9, 1e6
_BYTES = {"gib": _GIB, "mib": _MIB, "kib": _KIB, "gb": _GB, "mb": _MB, "kb": 1e3, "bytes": 1.0, "b": 1.0}
_MEMORY = re.compile(
    r"^(?:host_?|sys(?:tem)?_?|node_?|ram_?)?(?:mem(?:ory)?|ram)_?(used|total|free|avail(?:able)?|rss|util|usage)?"
    r"_?(gib|mib|kib|gb|mb|kb|bytes|b|pct|percent|ratio|frac)?$"
)
_NAMES: tuple[tuple[str, str], ...] = (
    (r"(?:gpu_?)?temp(?:erature)?(?:_?gpu)?(?:_?c|_celsius)?", "DCGM_FI_DEV_GPU_TEMP"),
    (r"(?:hbm|mem(?:ory)?|gpu_mem(?:ory)?)_?temp(?:erature)?(?:_?c)?|temperature_memory", "DCGM_FI_DEV_MEMORY_TEMP"),
    (r"(?:gpu_?)?power(?:_?draw|_?usage)?(?:_?w(?:atts)?)?", "DCGM_FI_DEV_POWER_USAGE"),
    (r"(?:gpu_?|sm_?)?util(?:ization)?(?:_?gpu)?(?:_?pct|_percent)?", "DCGM_FI_DEV_GPU_UTIL"),
    (r"(?:gpu_?)?(?:sm_?)?clocks?(?:_?(?:sm|gr|current_sm))?(?:_?mhz)?|sm_clock(?:_mhz)?", "DCGM_FI_DEV_SM_CLOCK"),
    (r"(?:clocks?_?)?(?:event|throttle)_?reasons?(?:_?active)?", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
    (r"(?:last_?)?xid(?:_?errors?|_?code)?", "DCGM_FI_DEV_XID_ERRORS"),
    (r"ecc_?(?:dbe|double|uncorr)\w*|ecc_errors_uncorrected_\w+|dbe(?:_\w+)?", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
    (r"ecc_?(?:sbe|single|corr)\w*|ecc_errors_corrected_\w+|sbe(?:_\w+)?", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),
    (r"(?:row_?)?remap(?:ped)?_?(?:rows_?)?(?:fail|failed|failure)", "DCGM_FI_DEV_ROW_REMAP_FAILURE"),
    (r"(?:row_?)?remap(?:ped)?_?(?:rows_?)?pending", "DCGM_FI_DEV_ROW_REMAP_PENDING"),
    (r"nvlink_?(?:bw|bandwidth|gbps|gb_?s)(?:_?\w*)?", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"),
    (r"nvlink_?crc(?:_?\w*)?", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
    (r"nvlink_?replay(?:_?\w*)?", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
    (r"nvlink_?recovery(?:_?\w*)?", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),
    (r"pcie?_?replays?(?:_?\w*)?", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
    (r"pcie?_?(?:link_?)?width(?:_?current)?", "DCGM_FI_DEV_PCIE_LINK_WIDTH"),
    (r"pcie?_?(?:link_?)?gen(?:_?current)?", "DCGM_FI_DEV_PCIE_LINK_GEN"),
    (r"pcie?_?(?:link_?)?(?:max_?width|width_?max)", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"),
    (r"pcie?_?(?:link_?)?(?:max_?gen|gen_?max)", "DCGM_FI_DEV_PCIE_MAX_LINK_GEN"),
    (r"tensor(?:_?core)?_?(?:active|util)(?:_?\w*)?|pipe_tensor_active", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
    (r"sm_?active", "DCGM_FI_PROF_SM_ACTIVE"),
    (r"sm_?occupancy", "DCGM_FI_PROF_SM_OCCUPANCY"),
    (r"gpu_?count|gpus(?:_?visible)?|num_?gpus", "gpu_count"),
    (r"(?:ib_?|port_?)?rate_?(?:gbps|gb_?s)?", "node_infiniband_rate_bytes_per_second"),
    (r"(?:ib_?|port_?)?link_?downed(?:_?\w*)?", "node_infiniband_link_downed_total"),
    (r"(?:ib_?|port_?)?symbol_?errors?(?:_?\w*)?", "node_infiniband_symbol_error_total"),
    (r"(?:ib_?|port_?)?link_?(?:error_?)?recover(?:y|ies|ed)(?:_?\w*)?", "node_infiniband_link_error_recovery_total"),
    (r"(?:ib_?)?port_?rcv_?errors?(?:_?\w*)?", "node_infiniband_port_errors_received_total"),
    (r"(?:ib_?)?port_?xmit_?discards?(?:_?\w*)?", "node_infiniband_port_discards_transmitted_total"),
    (r"(?:ib_?|port_?)?local_?link_?integrity(?:_?\w*)?", "node_infiniband_local_link_integrity_errors_total"),
    (r"(?:ib_?|port_?)?state(?:_?id)?", "node_infiniband_state_id"),
    (r"(?:ib_?|port_?)?phys(?:ical)?_?state(?:_?id)?", "node_infiniband_physical_state_id"),
    (r"carrier_?changes(?:_?\w*)?", "node_network_carrier_changes_total"),
    (r"oom_?kills?(?:_?\w*)?", "node_vmstat_oom_kill"),
    (r"boot_?time(?:_?\w*)?", "node_boot_time_seconds"),
    (r"(?:edac_?)?ue(?:_?count)?", "node_edac_uncorrectable_errors_total"),
    (r"(?:edac_?)?ce(?:_?count)?", "node_edac_correctable_errors_total"),
)  # fmt: skip
_KNOWN = tuple((re.compile(rf"(?:{pattern})\Z"), series) for pattern, series in _NAMES)
_AVAILABLE, _TOTAL = "node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What a column is: a series with a factor for its unit; `what` tells parts of a host's memory apart."""

    name: str
    series: str | None = None
    factor: float = 1.0
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What the columns of a table are; their numbers, and the columns with values."""

    time: int
    node: int | None
    device: tuple[tuple[int, str], ...]
    long: tuple[int, int] | None
    columns: Mapping[int, Column]
    separator: str

    @property
    def has_samples(self) -> bool:
        """Whether a row can give samples at all."""
        return self.long is not None or bool(self.columns)


def heading_of(header: str) -> Heading | None:
    """What the columns of a table of samples are; None: it is none."""
    found = columns_of(header)
    if found is None:
        return None
    separator, names = found
    plain = [_plain(name) for name in names]
    time = next((at for at, name in enumerate(names) if is_time_column(name)), None)
    if time is None:
        return None
    node = next((at for at, name in enumerate(plain) if name in _NODES), None)
    devices = [(at, "gpu") for at, name in enumerate(plain) if name in _GPUS]
    devices += [(at, _label(name)) for at, name in enumerate(plain) if name in _DEVICES]
    name_at = next((at for at, name in enumerate(plain) if name in _LONG_NAMES and at != node), None)
    value_at = next((at for at, name in enumerate(plain) if name in _LONG_VALUES), None)
    taken = {time, node, *(at for at, _ in devices)}
    columns = {at: each for at, name in enumerate(names) if at not in taken and (each := column_of(name)) is not None}
    long = (name_at, value_at) if name_at is not None and value_at is not None else None
    return Heading(
        time=time, node=node, device=tuple(devices), long=long, columns={} if long else columns, separator=separator
    )


def column_of(name: str) -> Column | None:
    """What a column of values is, by its name; None where no rule could ask about it."""
    plain = _plain(name)
    memory = _MEMORY.match(plain)
    if memory and (memory[1] or memory[2]):
        return Column(name=name, what=memory[1] or "used", factor=_BYTES.get(memory[2] or "bytes", -1.0))
    if re.match(r"(?:DCGM_|node_|nvidia_|container_|kube_)", name.strip()):
        return Column(name=name, series=name.strip())
    series = next((series for pattern, series in _KNOWN if pattern.match(plain)), None)
    return None if series is None else Column(name=name, series=series)


def read_table(name: str, chunks: Iterable[bytes], samples: Samples, nodes: tuple[str, ...], node: str | None) -> bytes:
    """Add the samples of a table; gives its comments, each on its line, for they may say more.

    Rows without a time or of another length are passed over.
    """
    notes: list[bytes] = []
    heading: Heading | None = None
    shown: dict[str, str] = {}
    for number, line in enumerate(_lines(chunks), 1):
        if line.startswith(b"#") or not line.strip():
            notes.append(line)
            continue
        notes.append(b"")
        text = line.decode("utf-8", "replace")
        if heading is None:
            heading = heading_of(text)
            if heading is None or not heading.has_samples:
                break
            continue
        cells = _cells(text, heading.separator)
        at = values.moment(cells[heading.time]) if len(cells) > heading.time else None
        if at is None:
            continue
        place = _cell(cells, heading.node)
        owner = samples.place(place, nodes, node)
        told = {label: cell for column, label in heading.device if (cell := _cell(cells, column))}
        labels = tuple(sorted(told.items()))
        for series, value, called in _values(heading, cells):
            if series in samples.wanted:
                point = Point(at.timestamp(), value, name, number)
                samples.add(series, labels, owner, (at.timestamp(), 0), point)
                shown.setdefault(series, called)
    for series, called in shown.items():
        samples.call(series, called)
    return b"\n".join(notes) if any(note.strip() for note in notes) else b""


def _values(heading: Heading, cells: Sequence[str]) -> Iterator[tuple[str, float, str]]:
    """The values of a row by series, with the column's own name."""
    if heading.long is not None:
        name, value = _cell(cells, heading.long[0]), _number(_cell(cells, heading.long[1]))
        column = column_of(name) if name else None
        if column is not None and column.series is not None and value is not None:
            yield column.series, value * column.factor, name
        return
    memory: dict[str, float] = {}
    for at, column in heading.columns.items():
        value = _number(_cell(cells, at))
        if value is None:
            continue
        if column.series is not None:
            yield column.series, value * column.factor, column.name
        elif column.factor < 0:
            memory["share"] = value if value <= 1.0 and "pct" not in column.name else value / 100.0
        else:
            memory[column.what] = value * column.factor
    yield from _of_memory(memory)


def _of_memory(memory: Mapping[str, float]) -> Iterator[tuple[str, float, str]]:
    """What is free of a host's memory, whichever way a table says it."""
    total = memory.get("total")
    free = next((memory[what] for what in ("available", "avail", "free") if what in memory), None)
    used = next((memory[what] for what in ("used", "rss", "usage", "util") if what in memory), None)
    if free is None and total is not None and used is not None:
        free = max(0.0, total - used)
    if free is None and "share" in memory:
        total, free = 100.0, 100.0 * max(0.0, 1.0 - memory["share"])
    if total and free is not None:
        yield _AVAILABLE, free, "memory available"
        yield _TOTAL, total, "memory in all"


def _plain(name: str) -> str:
    """A column's name in small letters with underscores, its unit with it."""
    unit = _UNIT.search(name)
    bare = _UNIT.sub("", name).strip().lower()
    said = re.sub(r"[^a-z0-9]+", "_", bare).strip("_")
    inner = re.sub(r"[^a-z]+", "", unit[1].lower()) if unit else ""
    return f"{said}_{inner}" if inner in _BYTES or inner in ("c", "w", "mhz") else said


def _label(name: str) -> str:
    return {"dev": "device", "nic": "device", "hca": "device", "interface": "device", "ifname": "device",
            "mount": "mountpoint"}.get(name, name)  # fmt: skip


def _cell(cells: Sequence[str], at: int | None) -> str:
    return cells[at].strip()[:300] if at is not None and at < len(cells) else ""


def _number(cell: str) -> float | None:
    """The number that a cell begins with: a unit may stand behind it."""
    found = _VALUE.match(cell)
    if found is None:
        return None
    text = found[0]
    return float(int(text, 16)) if "x" in text.lower() else float(text)


def _cells(line: str, separator: str) -> list[str]:
    if '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line[: 64 * 1024]], delimiter=separator))
    except (csv.Error, StopIteration):
        return []


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.rstrip(b"\r") for line in lines)
        if len(rest) > 128 * 1024:
            rest = rest[: 64 * 1024]
    if rest:
        yield rest.rstrip(b"\r")
