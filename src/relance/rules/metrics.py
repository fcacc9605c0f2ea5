"""Metric rules asked of samples: which conditions were met, where, and since when. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate, pairwise

from relance.domain.faults import Scope
from relance.domain.findings import RuleHit
from relance.rules.growths import growth
from relance.rules.masking import mask
from relance.rules.metric_rules import Beneath, Condition, MetricRule, Point, Series, Test

MOST_HITS_OF_A_RULE = 64
PEERS_STEP_S = 15.0
"""Peers are compared in steps of the usual time between two scrapes."""
_STALE_S = 600.0
"""A value older than this says nothing about now."""
_FEWEST_SERIES = 3
_NEARLY_ALL = 0.8
VANISHED_S = 120.0
"""The series of others went on for so much longer, and this one ended by itself: eight scrapes of the usual 15 s."""
_Check = Callable[[Series, Point], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How all series of one name stood at one time: their median, and the value that most of them had.

    `usual_count` of all `count` series had the usual value.
    """

    count: int
    middle: float
    usual: float
    usual_count: int


Standings = Mapping[str, Mapping[int, Standing]]
"""By a series' name and the number of a step of `PEERS_STEP_S` since 1970."""


def evaluate(
    rules: Iterable[MetricRule], series: Sequence[Series], seen_at: datetime, standings: Standings | None = None
) -> tuple[RuleHit, ...]:
    """The hits of rules on samples: of each rule the first for each node and device, in the order of the rules.

    `standings` tell how the series stood everywhere, where `series` are only a few of all; without them these are all.
    """
    store = _Store(series, standings)
    hits: list[RuleHit] = []
    for rule in rules:
        found: dict[tuple[str | None, str | None], RuleHit] = {}
        for each in store.of(rule.series, rule.where):
            if len(found) >= MOST_HITS_OF_A_RULE:
                break
            met = _met(rule, each, store)
            if met is not None:
                hit = _hit(rule, each, met, seen_at)
                key = (hit.node, hit.device)
                if key not in found or (hit.when, hit.file, hit.offset) < (
                    found[key].when,
                    found[key].file,
                    found[key].offset,
                ):
                    found[key] = hit
        hits += found.values()
    return tuple(hits)


def device_of(rule: MetricRule, series: Series) -> tuple[str, str] | None:
    """The label that tells which device of its node a series is about, and its value."""
    return next(((name, series.labels[name]) for name in rule.device if series.labels.get(name)), None)


@dataclass(frozen=True, slots=True)
class _Met:
    """Where a condition was met first; `before` is the sample before a change."""

    point: Point
    before: Point | None = None
    of: float | None = None


class _Store:
    """The series by name, with what their peers showed at each time."""

    def __init__(self, series: Sequence[Series], standings: Standings | None) -> None:
        self._standings = standings
        self._by_name: dict[str, list[Series]] = {}
        ordered = sorted(series, key=lambda each: (each.node or "", sorted(each.labels.items()), each.name))
        for each in ordered:
            if each.points:
                self._by_name.setdefault(each.name, []).append(each)
        self._peers: dict[str, _Peers] = {}
        self._times: dict[int, list[float]] = {}
        self._peaks: dict[int, tuple[list[float], list[float]]] = {}

    def of(self, names: Sequence[str], where: Mapping[str, str]) -> list[Series]:
        """The series of these names that have these labels."""
        return [
            each
            for name in names
            for each in self._by_name.get(name, ())
            if all(each.labels.get(label) == value for label, value in where.items())
        ]

    def peers(self, name: str) -> _Peers:
        """All series of one name, compared."""
        if name not in self._peers:
            told = None if self._standings is None else self._standings.get(name, {})
            self._peers[name] = _Peers(self._by_name.get(name, []), told)
        return self._peers[name]

    def peak(self, series: Series, point: Point) -> float:
        """The highest value of a series up to a time."""
        held = self._peaks.get(id(series))
        if held is None:
            highest = accumulate((each.value for each in series.points), max)
            held = self._peaks[id(series)] = ([each.at for each in series.points], list(highest))
        return held[1][max(0, bisect_right(held[0], point.at) - 1)]

    def beside(self, names: Sequence[str], series: Series, point: Point) -> float | None:
        """What another series of the same node and device showed last, at a time of this one."""
        for each in self.of(names, {}):
            shared = each.labels.keys() & series.labels.keys() & _DEVICE_LABELS
            if each.node == series.node and all(each.labels[label] == series.labels[label] for label in shared):
                times = self._times.setdefault(id(each), [one.at for one in each.points])
                at = bisect_right(times, point.at) - 1
                if at < 0 and each.points[0].at - point.at <= _STALE_S:
                    at = 0
                if at >= 0 and abs(point.at - each.points[at].at) <= _STALE_S:
                    return each.points[at].value
        return None


_DEVICE_LABELS = frozenset({
    "gpu", "device", "port", "uuid", "UUID", "mountpoint", "chip", "interface", "namespace", "pod", "container",
})  # fmt: skip


class _Peers:
    """What all series of one name showed, step by step."""

    def __init__(self, series: Sequence[Series], told: Mapping[int, Standing] | None) -> None:
        self._series = series
        self._told = told

    @cached_property
    def _steps(self) -> Mapping[int, Standing]:
        last: dict[int, tuple[float, float]] = {}
        events = sorted(
            (int(point.at // PEERS_STEP_S), number, point.at, point.value)
            for number, each in enumerate(self._series)
            for point in each.points
            if point.value == point.value
        )
        steps: dict[int, Standing] = {}
        for index, (step, number, at, value) in enumerate(events):
            last[number] = (at, value)
            if index + 1 == len(events) or events[index + 1][0] != step:
                values = sorted(value for seen, value in last.values() if at - seen <= _STALE_S)
                if values:
                    steps[step] = _standing(values)
        return steps

    def at(self, point: Point) -> Standing | None:
        """How all stood at that time, this series too; too few of them say nothing."""
        steps = self._steps if self._told is None else self._told
        found = steps.get(int(point.at // PEERS_STEP_S))
        return found if found is not None and found.count >= _FEWEST_SERIES else None

    def go_on_after(self, series: Series) -> int:
        """How many other nodes' series went on well after this one's end."""
        end = series.points[-1].at
        return len(
            {each.node for each in self._series if each.node != series.node and each.points[-1].at > end + VANISHED_S}
        )

    def goes_on_elsewhere(self, series: Series) -> bool:
        """Whether another series of the same name and node went on: then it was renamed or moved, not lost."""
        end = series.points[-1].at
        return any(each.node == series.node and each.points[-1].at > end for each in self._series)


def _standing(values: Sequence[float]) -> Standing:
    """How these values stand, given in order."""
    usual, count = Counter(values).most_common(1)[0]
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2.0
    return Standing(count=len(values), middle=middle, usual=usual, usual_count=count)


def _met(rule: MetricRule, series: Series, store: _Store) -> _Met | None:
    """Where the rule's condition was first met in a series, if it was."""
    test = rule.when.test
    if test is Test.VANISHES:
        return _vanished(series, store)
    if test.is_moment:
        return _changed(rule, series, store)
    if test is Test.GROWS:
        return _grown(rule, series, store)
    if test is Test.GROWS_PER_MINUTE:
        return _grown_fast(rule, series, store)
    check = _level(rule.when, store)

    def told(point: Point) -> bool:
        return check(series, point) and _is_beneath(rule.beneath, series, point, store)

    if rule.throughout:
        since = series.points[-1] if all(told(point) for point in series.points) else None
    else:
        since = _lasting(series, rule.for_s, told)
    if since is None:
        return None
    return _Met(since, of=store.beside(rule.when.of, series, since) if rule.when.of else None)


def _lasting(series: Series, for_s: float, holds: Callable[[Point], bool]) -> Point | None:
    """The first sample of the first time over which a level held long enough."""
    since: Point | None = None
    for point in series.points:
        if not holds(point):
            since = None
            continue
        since = since or point
        if for_s <= 0 or (series.timed and point.at - since.at >= for_s):
            return since
    return None


def _level(condition: Condition, store: _Store) -> _Check:
    """Whether a level holds at a sample."""
    test, limits = condition.test, condition.limits

    def check(series: Series, point: Point) -> bool:
        value = point.value
        if condition.of:
            whole = store.beside(condition.of, series, point)
            if not whole:
                return False
            value /= whole
        if test is Test.BELOW_PEAK:
            peak = store.peak(series, point)
            return peak > 0 and value < limits[0] * peak
        if test.asks_peers:
            return _differs(test, limits, value, store.peers(series.name).at(point))
        return _holds(test, limits, value)

    return check


def _holds(test: Test, limits: tuple[float, ...], value: float) -> bool:
    if value != value:  # noqa: PLR0124 - no number: it says nothing
        return False
    if test is Test.ABOVE:
        return value > limits[0]
    if test is Test.BELOW:
        return value < limits[0]
    if test is Test.EQUALS:
        return value in limits
    if test is Test.OTHER_THAN:
        return value not in limits
    return 0 <= value < 1 << 63 and any(int(value) & int(bit) for bit in limits)


def _differs(test: Test, limits: tuple[float, ...], value: float, everywhere: Standing | None) -> bool:
    """Whether a value stands out of those of the same series everywhere."""
    if everywhere is None or value != value:  # noqa: PLR0124 - no number: it says nothing
        return False
    if test is Test.UNLIKE_PEERS:
        return value != everywhere.usual and everywhere.usual_count >= _NEARLY_ALL * (everywhere.count - 1)
    if test is Test.BELOW_PEERS:
        return everywhere.middle > 0 and value < limits[0] * everywhere.middle
    return value > everywhere.middle + limits[0]


def _is_beneath(beneath: Beneath | None, series: Series, point: Point, store: _Store) -> bool:
    if beneath is None:
        return True
    value = store.beside(beneath.series, series, point)
    return value is not None and _holds(beneath.when.test, beneath.when.limits, value)


def _pairs(series: Series) -> Iterator[tuple[Point, Point]]:
    told = [point for point in series.points if point.value == point.value]
    return pairwise(told)


def _changed(rule: MetricRule, series: Series, store: _Store) -> _Met | None:
    for before, point in _pairs(series):
        wanted = rule.when.test is Test.CHANGES or point.value in rule.when.limits
        if point.value != before.value and wanted and _is_beneath(rule.beneath, series, point, store):
            return _Met(point, before)
    return None


def _grown(rule: MetricRule, series: Series, store: _Store) -> _Met | None:
    """Where a counter had grown by enough since the first sample."""
    for before, point, grown in growth(_pairs(series), is_time=rule.is_time):
        if grown >= rule.when.limits[0] and grown > 0 and _is_beneath(rule.beneath, series, point, store):
            return _Met(point, before)
    return None


def _grown_fast(rule: MetricRule, series: Series, store: _Store) -> _Met | None:
    since: tuple[Point, Point] | None = None
    for before, point in _pairs(series) if series.timed else ():
        took_s = point.at - before.at
        grown = point.value - before.value
        if took_s <= 0 or grown * 60.0 / took_s < rule.when.limits[0] or grown <= 0:
            since = None
            continue
        since = since or (before, point)
        if point.at - since[0].at >= rule.for_s and _is_beneath(rule.beneath, series, point, store):
            return _Met(since[1], since[0])
    return None


def _vanished(series: Series, store: _Store) -> _Met | None:
    peers = store.peers(series.name)
    gone = series.timed and series.node is not None and len(series.points) > 1 and not peers.goes_on_elsewhere(series)
    return _Met(series.points[-1]) if gone and peers.go_on_after(series) >= _FEWEST_OTHERS else None


_FEWEST_OTHERS = 2
"""So many other nodes must go on before one that is silent stands out."""


def _hit(rule: MetricRule, series: Series, met: _Met, seen_at: datetime) -> RuleHit:
    point = met.point
    device = device_of(rule, series)
    captures = {"series": series.name, "value": _shown(point.value)}
    if series.node is not None:
        captures["node"] = series.node
    if device is not None:
        captures["gpu" if device[0] in ("gpu", "GPU") else "device"] = device[1]
    if rule.value_as is not None:
        captures[rule.value_as] = _shown(point.value)
    if rule.slow:
        captures["slow"] = "yes"
    return RuleHit(
        rule=rule.id,
        symptom=rule.symptom,
        domain=rule.domain,
        role=rule.role,
        suspect=rule.suspect,
        restart=rule.restart,
        weight=rule.weight,
        scope=Scope.METRICS,
        seen_at=seen_at,
        at=datetime.fromtimestamp(point.at, UTC) if series.timed else None,
        node=series.node,
        device=None if device is None else f"gpu{device[1]}" if device[0] in ("gpu", "GPU") else device[1],
        file=point.file,
        offset=point.line,
        line=point.line,
        excerpt=_excerpt(rule, series, met),
        captures=captures,
    )


def _excerpt(rule: MetricRule, series: Series, met: _Met) -> str:
    labels = {name: value for name, value in sorted(series.labels.items()) if name in (*rule.device, *rule.where)}
    told = ",".join(f'{name}="{value}"' for name, value in labels.items())
    name = mask(f"{series.shown or series.name}{{{told}}}" if told else series.shown or series.name)[:300]
    where = f" on {series.node}" if series.node else ""
    if rule.when.test is Test.VANISHES:
        return f"{name} {_shown(met.point.value)}, then nothing{where} while others went on"
    if met.before is not None:
        return f"{name} {_shown(met.before.value)} -> {_shown(met.point.value)}{where}"
    of = f" of {_shown(met.of)} ({_share(met.point.value, met.of)})" if met.of else ""
    return f"{name} {_shown(met.point.value)}{of}{where}"


def _share(value: float, whole: float) -> str:
    """A value as a share, for people."""
    return f"{100.0 * value / whole:.1f} %"


def _shown(value: float) -> str:
    return str(int(value)) if abs(value) < 1 << 53 and value == int(value) else f"{value:.6g}"
