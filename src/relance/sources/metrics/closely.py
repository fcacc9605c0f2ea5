"""What is asked only of attempts that may hang or have an incident: what their GPUs do, all metrics of their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from relance.domain.keys import AttemptKey
from relance.domain.observations import DevicePicture
from relance.domain.views import Assignment
from relance.rules.metric_queries import ASK_LABEL, LONG_S, Naming, one_of, quoted, samples, tagged
from relance.rules.metric_rules import MetricRule, Series, Test
from relance.rules.metrics import evaluate
from relance.sources.metrics.clients import Labels, MetricClient
from relance.sources.metrics.deciding import moments
from relance.sources.metrics.pictures import Device, picture
from relance.sources.metrics.places import Places, by_label
from relance.sources.metrics.settings import MetricSettings
from relance.sources.metrics.shapes import device_of, series_of
from relance.sources.metrics.tellings import Tellings

_UTIL = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "nvidia_smi_utilization_gpu_ratio")
_POWER = ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "nvidia_smi_power_draw_watts")
_TENSOR = ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO")
_DEVICE = ("gpu", "GPU", "device", "uuid", "UUID")
_NODES_AT_ONCE = 200
_NODES_READ = 16
"""Of an attempt on more nodes than this only some are read whole: those that are odd first."""
_READ_EVERY_S = 60.0
_PAST = "[1h]"


class CloseLooks:
    """Looks closely at attempts, one after another."""

    def __init__(
        self,
        client: MetricClient,
        rules: Sequence[MetricRule],
        settings: MetricSettings,
        tellings: Tellings,
        places: Places,
    ) -> None:
        self._client = client
        self._rules = [rule for rule in rules if rule.when.test is not Test.VANISHES]
        self._settings = settings
        self._tellings = tellings
        self._places = places
        self._read_at: dict[AttemptKey, float] = {}

    async def look(
        self,
        assignment: Assignment,
        names: frozenset[str],
        labels: Mapping[str, tuple[str, str]],
        devices: Mapping[str, int],
        times: tuple[float, float | None],
    ) -> None:
        """Look at one attempt: the store has series of these names, knows nodes by these labels. Raises StoreError.

        `times` are the store's time now, and the time that is asked for, None: its own.
        """
        now, _ = times
        known = {node: labels[node] for node in assignment.nodes if node in labels}
        if not known:
            return
        seen = await self._picture(assignment, names, known, devices, times)
        if seen is not None:
            self._tellings.queue(assignment.attempt, (seen,))
        if now - self._read_at.get(assignment.attempt, float("-inf")) < _READ_EVERY_S:
            return
        self._read_at[assignment.attempt] = now
        odd = [each.node for each in seen.odd] if seen is not None else []
        first = list(dict.fromkeys([*odd, *known]))[:_NODES_READ]
        await self._read_whole(assignment, names, {node: known[node] for node in first if node in known}, times)

    def forget(self, closely: frozenset[AttemptKey]) -> None:
        """Only these are looked at closely from now on."""
        self._read_at = {attempt: at for attempt, at in self._read_at.items() if attempt in closely}

    async def _picture(
        self,
        assignment: Assignment,
        names: frozenset[str],
        known: Mapping[str, tuple[str, str]],
        devices: Mapping[str, int],
        times: tuple[float, float | None],
    ) -> DevicePicture | None:
        measured: dict[tuple[str, str], Device] = {}
        for label, values in by_label(known.values()).items():
            for begin in range(0, len(values), _NODES_AT_ONCE):
                query = _picture_query(names, self._settings.naming, label, values[begin : begin + _NODES_AT_ONCE])
                if not query:
                    return None
                answer = await self._client.vector(query, times[1])
                for labels, value in zip(answer.labels, answer.values, strict=True):
                    self._measure(measured, labels, value)
        return picture(measured, assignment.nodes, devices, times[0])

    def _measure(self, measured: dict[tuple[str, str], Device], labels: Labels, value: float) -> None:
        place, name = self._places.place(labels), device_of(labels, _DEVICE)
        if place is None or name is None or value != value:  # noqa: PLR0124 - no number
            return
        device = measured.setdefault((place.node, name), Device())
        kind, _, scale = labels.get(ASK_LABEL, "").partition(":")
        if kind == "util":
            device.percent = value * 100.0 if scale == "ratio" and value <= 1.0 else value
        elif kind == "power":
            device.watts = value
        elif kind == "peak":
            device.peak_watts = value
        elif kind == "tensor":
            device.tensor = value
        elif kind == "at":
            device.at = max(value, device.at or value)

    async def _read_whole(
        self,
        assignment: Assignment,
        names: frozenset[str],
        known: Mapping[str, tuple[str, str]],
        times: tuple[float, float | None],
    ) -> None:
        """Read all that rules look at, and ask the rules of it; the attempt's own nodes are the peers."""
        now, at = times
        wanted = names & frozenset().union(*(rule.names for rule in self._rules))
        if not wanted or not known:
            return
        series = []
        for label, values in by_label(known.values()).items():
            query = samples(wanted, label, values, self._settings.naming, LONG_S)
            series += series_of(await self._client.matrix(query, at), self._places)
        seen_at = datetime.fromtimestamp(now, UTC)
        only = frozenset({assignment.attempt})
        asked = [rule for rule in self._rules if not rule.names.isdisjoint(wanted)]
        by_id = {rule.id: rule for rule in asked}
        lasting = [rule for rule in asked if not rule.when.test.is_moment]
        changes = [rule for rule in asked if rule.when.test.is_moment]
        own = {name for rule in changes for name in rule.series}
        beside = {name for rule in changes for name in rule.names} - own
        changing = [each for each in series if each.name in beside or (each.name in own and _changes(each))]
        for _, hit in moments(changes, changing, seen_at):
            self._tellings.meet(by_id[hit.rule], hit, now, only)
        for hit in evaluate(lasting, series, seen_at):
            self._tellings.meet(by_id[hit.rule], hit, now, only)


def _changes(series: Series) -> bool:
    """Whether a series has more than one value."""
    return any(point.value != series.points[0].value for point in series.points)


def _picture_query(names: frozenset[str], naming: Naming, label: str, values: Sequence[str]) -> str:
    by = ", ".join(dict.fromkeys((*naming.node_labels, *_DEVICE, ASK_LABEL)))
    matcher = (f"{label}=~{quoted(one_of(values))}",)

    def asked(wanted: Sequence[str], kind: str, text: str) -> list[str]:
        found = []
        for name in wanted:
            if name in names:
                scale = "ratio" if name.lower().endswith("_ratio") else ""
                series = f"{name}{naming.braces({}, matcher)}"
                tag = f"{kind}:{scale}" if kind == "util" else kind
                found.append(f"max by ({by}) ({tagged(text.format(series), tag)})")
        return found

    timed = [name for name in (*_UTIL, *_POWER) if name in names]
    if not timed:
        return ""
    parts = [
        *asked(_UTIL, "util", "{}"),
        *asked(_POWER, "power", "{}"),
        *asked(_POWER, "peak", "max_over_time({}" + _PAST + ")"),
        *asked(_TENSOR, "tensor", "{}"),
        *asked(timed, "at", "timestamp({})"),
    ]
    return " or ".join(parts)
