"""Rules over samples of metrics, as values: a condition is data, so that it can be asked of samples and as a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from relance.domain.faults import FaultDomain, RestartHint, Role, SuspectKind
from relance.domain.findings import Sign


class Test(Enum):
    """What is asked of a series. Levels hold at a time, the others between two."""

    ABOVE = "above"
    """The value is larger."""
    BELOW = "below"
    """The value is smaller."""
    EQUALS = "equals"
    """The value is one of these."""
    OTHER_THAN = "other_than"
    """The value is none of these."""
    BITS = "bits"
    """One of these bits is set in the value."""
    BELOW_PEERS = "below_peers"
    """The value is below this share of the median of the same series everywhere else."""
    ABOVE_PEERS = "above_peers"
    """The value is by this much above the median of the same series everywhere else."""
    UNLIKE_PEERS = "unlike_peers"
    """The value is not the one that nearly all others have."""
    CHANGES = "changes"
    """The value is another than before."""
    BECOMES = "becomes"
    """The value changes to one of these."""
    GROWS = "grows"
    """A counter grew by this much since the first sample."""
    GROWS_PER_MINUTE = "grows_per_minute"
    """A counter grows by this much a minute."""
    BELOW_PEAK = "below_peak"
    """The value is below this share of the highest that the series had before."""
    VANISHES = "vanishes"
    """The series of one node ends while those of others go on."""

    @property
    def is_level(self) -> bool:
        """Whether it holds at a time, by that time's values alone."""
        return self in _LEVELS

    @property
    def asks_peers(self) -> bool:
        """Whether it compares with the same series elsewhere."""
        return self in _OF_PEERS

    @property
    def is_moment(self) -> bool:
        """Whether it holds at the moment of a change alone, so that each change is one of its own."""
        return self in _MOMENTS

    @property
    def is_growth(self) -> bool:
        """Whether it is asked of a counter."""
        return self in _GROWTHS


_MOMENTS = frozenset({Test.CHANGES, Test.BECOMES})
_GROWTHS = frozenset({Test.GROWS, Test.GROWS_PER_MINUTE})
_OF_PEERS = frozenset({Test.BELOW_PEERS, Test.ABOVE_PEERS, Test.UNLIKE_PEERS})
_LEVELS = _OF_PEERS | {Test.ABOVE, Test.BELOW, Test.BELOW_PEAK, Test.EQUALS, Test.OTHER_THAN, Test.BITS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One question about a series.

    `of` names series by which the value is divided first, of the same node and device: a limit is then a share.
    """

    test: Test
    limits: tuple[float, ...] = ()
    of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beneath:
    """A level of another series of the same node and device that has to hold at the same time."""

    series: tuple[str, ...]
    when: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRule:
    """A condition over a series of samples, and what it means when it is met.

    `series` are the names under which exporters give it; `where` are labels that it must have. The condition has to
    hold for `for_s` seconds, or with `throughout` at every sample. `device` names the labels that tell devices of a
    node apart, the first of them that a series has. With `value_as` the value is a capture of that name. `slow` says
    that it explains slowness, not an end. `signs` are the independent signs of a dead or stuck attempt that its hits
    are; only what tells an event is one, not a state that may have lasted for weeks. `isolate` says that the node is to
    be left out once the attempt has ended, though nothing that runs is to be ended for it. `is_time` says that the
    value is a time of day by the node's clock. `hit` and `miss` are small
    tables of samples, one a line: seconds, node, series (the rule's first if left out), labels as `name=value`, value.
    """

    id: str
    title: str
    group: str
    series: tuple[str, ...]
    when: Condition
    symptom: str
    domain: FaultDomain
    role: Role
    suspect: SuspectKind
    restart: RestartHint
    weight: float
    source: str
    hit: tuple[str, ...]
    miss: tuple[str, ...]
    where: Mapping[str, str] = field(default_factory=dict)
    beneath: Beneath | None = None
    for_s: float = 0.0
    throughout: bool = False
    device: tuple[str, ...] = ("gpu", "device", "port")
    value_as: str | None = None
    slow: bool = False
    signs: frozenset[Sign] = frozenset()
    isolate: bool = False
    is_time: bool = False
    file: str = ""

    @property
    def names(self) -> frozenset[str]:
        """All series that the rule looks at."""
        beneath = (*self.beneath.series, *self.beneath.when.of) if self.beneath else ()
        return frozenset((*self.series, *self.when.of, *beneath))


class Point(NamedTuple):
    """One sample: seconds since 1970 (or a count, where nothing tells times), the value, and its place."""

    at: float
    value: float
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The samples of one series of one node, in order of time.

    `shown` is what the file calls it. `timed` says that the points' times are times of day.
    """

    name: str
    node: str | None
    points: tuple[Point, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    shown: str = ""
    timed: bool = True
