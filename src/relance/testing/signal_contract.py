"""The contract of `relance.ports.signals.SignalSource`, as tests that every implementation runs.

A test class of one's own inherits from `SignalContract` and has a fixture `stage` that gives a `SignalStage`: a world
in which nodes are measured, and sources that look at it with the rules of the stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from relance.domain.findings import RuleHit, Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Activity, DevicePicture
from relance.domain.views import Assignment
from relance.ports.signals import Signal, SignalSource

POLL_S = 15.0
"""How often a source of a stage looks; so often nodes are measured, too."""
XID, TEMPERATURE = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_GPU_TEMP"
UTILISATION, POWER, TENSOR = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
REMAP = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
OFF_BUS, REMAPPED, SILENT = "metric-xid-off-bus", "metric-remap-failure", "metric-telemetry-gone"
_HEALTHY = {XID: 0.0, TEMPERATURE: 50.0, UTILISATION: 90.0, POWER: 600.0, TENSOR: 0.4, REMAP: 0.0}
_NODES, _DEVICES = 6, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One sample, of now."""

    node: str
    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class SignalStage(Protocol):
    """A world for the tests of a source of signals. Its rules are those of Relance's own pack."""

    async def open(self) -> SignalSource:
        """A new source that looks at this world; the stage closes it."""
        ...

    async def measure(self, samples: Sequence[Measure]) -> None:
        """Have the world's nodes measured now."""
        ...

    async def lose(self) -> None:
        """Have the store answer no longer."""
        ...

    async def find(self) -> None:
        """Have the store answer again; what was measured meanwhile is in it."""
        ...

    async def pass_time(self, duration_s: float) -> None:
        """Let time go by, for the source's clock and the store's."""
        ...

    def now(self) -> datetime:
        """The time."""
        ...


@dataclass(slots=True)
class Fleet:
    """Six nodes with two GPUs each, measured again and again; `odd` are values that are not healthy."""

    stage: SignalStage
    odd: dict[tuple[str, str, str], float] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)

    def set(self, node: str, name: str, value: float, gpu: str = "0") -> None:
        """Have a GPU show a value from now on."""
        self.odd[node, name, gpu] = value

    async def live(self, source: SignalSource | None = None, rounds: int = 1) -> None:
        """Let so many times of a look go by, measure everything at each, and have a source look."""
        for _ in range(rounds):
            await self.stage.pass_time(POLL_S)
            await self.stage.measure([
                Measure(
                    node=node, name=name, value=self.odd.get((node, name, str(gpu)), value), labels={"gpu": str(gpu)}
                )
                for node in (f"n{number}" for number in range(_NODES))
                if node not in self.silent
                for name, value in _HEALTHY.items()
                for gpu in range(_DEVICES)
            ])  # fmt: skip
            if source is not None:
                await source.look()


def attempt(
    stage: SignalStage, nodes: Sequence[str], number: int = 1, started_at: datetime | None = None
) -> Assignment:
    """An attempt on these nodes, begun now if nothing else is said."""
    begun = started_at or stage.now()
    job = JobKey(cluster="alpha", raw_id=str(number), submitted_at=begun)
    key = AttemptKey(job=job, restart_count=0)
    return Assignment(attempt=key, owner_uid=1000, nodes=tuple(nodes), log_paths=(), started_at=begun)


def hits(signals: Sequence[Signal], rule: str | None = None) -> list[RuleHit]:
    """The hits among signals, of one rule or of all."""
    return [each for each in signals if isinstance(each, RuleHit) and rule in (None, each.rule)]


class SignalContract:
    """Inherit, and give a fixture `stage`."""

    async def test_a_sign_is_told_once_to_the_attempt_that_holds_the_node(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        await fleet.live(rounds=2)
        mine, other = attempt(stage, ["n0", "n1", "n2"], 1), attempt(stage, ["n3", "n4", "n5"], 2)
        source = await stage.open()
        source.assign([mine, other], frozenset())
        await fleet.live(source)
        fleet.set("n1", XID, 79.0)
        await fleet.live(source)
        at = stage.now()
        told = list(source.take(mine.attempt).signals)
        await fleet.live(source, rounds=4)
        told += source.take(mine.attempt).signals
        [hit] = hits(told, OFF_BUS)
        assert (hit.node, hit.device) == ("n1", "gpu0")
        assert hit.at == at
        assert hit.offset == int(at.timestamp())
        assert all(part in hit.file for part in (source.name, OFF_BUS, "n1", "gpu0"))
        assert hits(source.take(other.attempt).signals) == []

    async def test_what_went_away_and_came_back_is_told_again(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        mine = attempt(stage, ["n0", "n1", "n2"])
        source = await stage.open()
        source.assign([mine], frozenset())
        await fleet.live(source, rounds=2)
        fleet.set("n2", REMAP, 1.0)
        await fleet.live(source, rounds=3)
        first = hits(source.take(mine.attempt).signals, REMAPPED)
        fleet.set("n2", REMAP, 0.0)
        await fleet.live(source, rounds=6)
        assert hits(source.take(mine.attempt).signals, REMAPPED) == []
        fleet.set("n2", REMAP, 1.0)
        await fleet.live(source, rounds=3)
        second = hits(source.take(mine.attempt).signals, REMAPPED)
        assert (len(first), len(second)) == (1, 1)
        assert first[0].offset < second[0].offset

    async def test_what_was_before_an_attempt_is_none_of_its_signs(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        source = await stage.open()
        before = attempt(stage, ["n0", "n1", "n2"], 1)
        source.assign([before], frozenset())
        await fleet.live(source, rounds=2)
        fleet.set("n1", XID, 79.0)
        fleet.set("n2", REMAP, 1.0)
        await fleet.live(source, rounds=3)
        later = attempt(stage, ["n1", "n2", "n3"], 2)
        source.assign([later], frozenset())
        await fleet.live(source, rounds=3)
        told = source.take(later.attempt).signals
        assert hits(told, OFF_BUS) == []  # that was then
        [hit] = hits(told, REMAPPED)  # that is so still, and was so when it began
        assert later.started_at is not None
        assert hit.when >= later.started_at

    async def test_a_new_source_tells_the_same_by_the_same_places(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        mine = attempt(stage, ["n0", "n1", "n2"])
        source = await stage.open()
        source.assign([mine], frozenset())
        await fleet.live(source, rounds=2)
        fleet.set("n1", XID, 79.0)
        await fleet.live(source, rounds=2)
        [first] = hits(source.take(mine.attempt).signals, OFF_BUS)
        again = await stage.open()
        again.assign([mine], frozenset())
        await fleet.live(again, rounds=2)
        told = hits(again.take(mine.attempt).signals, OFF_BUS)
        assert {(hit.file, hit.offset) for hit in told} <= {(first.file, first.offset)}

    async def test_a_node_that_falls_silent_is_told_while_others_go_on(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        mine = attempt(stage, ["n0", "n1", "n2"])
        source = await stage.open()
        source.assign([mine], frozenset())
        await fleet.live(source, rounds=3)
        fleet.silent.add("n1")
        last = stage.now()
        await fleet.live(source, rounds=14)
        taken = source.take(mine.attempt)
        [hit] = hits(taken.signals, SILENT)
        assert (hit.node, hit.at) == ("n1", last)
        assert any(entry.sight is Sight.MISSING and "n1" in entry.note for entry in taken.coverage)

    async def test_all_that_falls_silent_at_once_is_no_sign_of_a_node(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        mine = attempt(stage, ["n0", "n1", "n2"])
        source = await stage.open()
        source.assign([mine], frozenset())
        await fleet.live(source, rounds=3)
        source.take(mine.attempt)
        fleet.silent |= {f"n{number}" for number in range(_NODES)}
        await fleet.live(source, rounds=14)
        assert hits(source.take(mine.attempt).signals) == []

    async def test_a_store_that_is_away_makes_no_signs_and_loses_none(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        mine = attempt(stage, ["n0", "n1", "n2"])
        source = await stage.open()
        assert [entry.sight for entry in source.sight()] == [Sight.UNKNOWN]
        source.assign([mine], frozenset())
        await fleet.live(source, rounds=3)
        assert [entry.sight for entry in source.sight()] == [Sight.SEEN]
        source.take(mine.attempt)
        seen_at = stage.now()
        await stage.lose()
        await stage.pass_time(60.0)
        await source.look()
        [lost] = source.sight()
        assert lost.sight is Sight.MISSING
        assert lost.up_to is not None
        assert abs(lost.up_to - seen_at) <= timedelta(seconds=2)
        assert "since" in lost.note
        assert source.take(mine.attempt).signals == ()
        fleet.set("n2", XID, 79.0)
        await fleet.live(rounds=20)  # measured, and nobody can ask
        fleet.set("n2", XID, 43.0)
        await fleet.live(rounds=20)
        await stage.find()
        await fleet.live(source, rounds=2)
        assert [entry.sight for entry in source.sight()] == [Sight.SEEN]
        told = [*source.take(mine.attempt).signals]
        await fleet.live(source, rounds=3)
        told += source.take(mine.attempt).signals
        assert [(hit.node, hit.device) for hit in hits(told, OFF_BUS)] == [("n2", "gpu0")]
        assert hits(told, SILENT) == []

    async def test_an_attempt_looked_at_closely_has_a_picture_that_names_the_odd_one(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        mine, other = attempt(stage, ["n0", "n1", "n2"], 1), attempt(stage, ["n3", "n4", "n5"], 2)
        source = await stage.open()
        source.assign([mine, other], frozenset({mine.attempt}))
        await fleet.live(source, rounds=3)
        working = pictures(source.take(mine.attempt).signals)
        assert working
        assert working[-1].counts == {Activity.WORKING: 6}
        assert working[-1].odd == ()
        for node in ("n0", "n1", "n2"):
            for gpu in ("0", "1"):
                fleet.set(node, UTILISATION, 100.0, gpu)
                fleet.set(node, TENSOR, 0.0, gpu)
        fleet.set("n1", UTILISATION, 0.0, "1")
        await fleet.live(source, rounds=2)
        stuck = pictures(source.take(mine.attempt).signals)[-1]
        assert stuck.counts == {Activity.SPINNING: 5, Activity.IDLE: 1}
        [odd] = stuck.odd
        assert (odd.node, odd.device, odd.activity) == ("n1", "gpu1", Activity.IDLE)
        assert pictures(source.take(other.attempt).signals) == []

    async def test_nodes_without_series_are_told(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        mine, other = attempt(stage, ["n0", "x9"], 1), attempt(stage, ["n1", "n2"], 2)
        source = await stage.open()
        source.assign([mine, other], frozenset())
        await fleet.live(source, rounds=3)
        lacking = [entry for entry in source.take(mine.attempt).coverage if "x9" in entry.note]
        assert [entry.sight for entry in lacking] == [Sight.MISSING]
        assert all("n0" not in entry.note for entry in lacking)
        assert not any("n1" in entry.note for entry in source.take(other.attempt).coverage)

    async def test_an_attempt_that_is_not_followed_is_told_nothing(self, stage: SignalStage) -> None:
        fleet = Fleet(stage)
        mine = attempt(stage, ["n0", "n1", "n2"])
        source = await stage.open()
        source.assign([mine], frozenset())
        await fleet.live(source, rounds=2)
        source.assign([], frozenset())
        fleet.set("n1", XID, 79.0)
        await fleet.live(source, rounds=2)
        assert source.take(mine.attempt).signals == ()

    async def test_it_may_be_closed_twice(self, stage: SignalStage) -> None:
        source = await stage.open()
        await source.close()
        await source.close()


def pictures(signals: Sequence[Signal]) -> list[DevicePicture]:
    """The pictures among signals."""
    return [each for each in signals if isinstance(each, DevicePicture)]
