"""The dumps of all ranks side by side: for each group, how far each member has come and what is outstanding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from relance.traces.dumps import Dump, GroupConfig, Status, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a rank has come in the collectives of a group, by their numbers. `works` are those that are known."""

    called: int
    completed: int
    works: Mapping[int, tuple[Work, ...]]

    @property
    def is_waiting(self) -> bool:
        """Whether a collective that it called is not complete."""
        return self.called > self.completed


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """The oldest collective of a group that a member waits in.

    `missing` have not called it, `waiting` have called it. `silent` are members without a dump.
    """

    group: str
    seq: int
    op: str
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    silent: tuple[int, ...]
    began_ns: int | None
    """When the first of them called it."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """A process group over all dumps. `mixed` groups also send and receive: their counters compare nothing."""

    key: str
    label: str
    members: tuple[int, ...]
    mixed: bool
    positions: Mapping[int, Position]
    dumped: frozenset[int]

    @cached_property
    def stuck(self) -> Stuck | None:
        """The oldest collective that is not complete; None if nobody waits."""
        waiting = {rank: each for rank, each in self.positions.items() if each.is_waiting}
        if not waiting:
            return None
        seq = min(each.completed + 1 for each in waiting.values())
        works = [work for each in waiting.values() for work in each.works.get(seq, ())]
        missing = [rank for rank, each in self.positions.items() if each.called < seq]
        return Stuck(
            group=self.key,
            seq=seq,
            op=works[0].op if works else "",
            waiting=tuple(sorted(r for r, each in waiting.items() if each.completed < seq <= each.called)),
            missing=tuple(sorted(missing)),
            silent=tuple(rank for rank in self.members if rank not in self.dumped),
            began_ns=min((work.created_ns for work in works if work.created_ns), default=None),
        )


@dataclass(frozen=True, kw_only=True)
class Job:
    """All dumps of a job."""

    dumps: Mapping[int, Dump]
    groups: Mapping[str, Group]
    keys: Mapping[tuple[int, str], str]
    """The key of a group by a rank and the name that the group has there."""

    @cached_property
    def world(self) -> tuple[int, ...]:
        """All ranks that are known of."""
        return tuple(sorted({rank for group in self.groups.values() for rank in group.members} | self.dumps.keys()))

    @cached_property
    def silent(self) -> tuple[int, ...]:
        """Ranks without a dump."""
        return tuple(rank for rank in self.world if rank not in self.dumps)

    @cached_property
    def coverage(self) -> float:
        """The share of ranks whose dumps are there, from 0 to 1."""
        return len(self.dumps) / len(self.world) if self.world else 0.0

    @cached_property
    def tells_starts(self) -> bool:
        """Whether the recorder saw collectives start: it does only where timing is on."""
        return any(
            status.started >= 0 for dump in self.dumps.values() for status in (*dump.statuses.values(), *dump.unplaced)
        ) or any(work.state.value == "started" for dump in self.dumps.values() for work in dump.works)

    def key_of(self, rank: int, work: Work) -> str:
        """The key of the group of a rank's operation."""
        return self.keys[rank, work.group]


def job_of(dumps: Iterable[Dump]) -> Job:
    """The dumps side by side; of two dumps of one rank the later one counts."""
    by_rank: dict[int, Dump] = {}
    for dump in sorted(dumps, key=lambda dump: (dump.latest_ns, dump.file)):
        by_rank[dump.rank] = dump
    by_rank = dict(sorted(by_rank.items()))
    configs = _configs(by_rank.values())
    keys: dict[tuple[int, str], str] = {}
    members: dict[str, set[int]] = defaultdict(set)
    for rank, dump in by_rank.items():
        for name in {*dump.groups, *dump.statuses, *(work.group for work in dump.works)}:
            key = _key(rank, name, dump.groups.get(name), configs)
            keys[rank, name] = key
            members[key].add(rank)
    labels = {_config_key(config, configs): config for configs_of in configs.values() for config in configs_of}
    works: dict[tuple[int, str], list[Work]] = defaultdict(list)
    for rank, dump in by_rank.items():
        for work in dump.works:
            works[rank, keys[rank, work.group]].append(work)
    statuses = {
        (rank, keys[rank, name]): each for rank, dump in by_rank.items() for name, each in dump.statuses.items()
    }
    groups = {
        key: _group(
            key, labels.get(key) or GroupConfig(name=key, ranks=tuple(sorted(ranks))), by_rank, (works, statuses)
        )
        for key, ranks in sorted(members.items())
    }
    return Job(dumps=by_rank, groups=groups, keys=keys)


def _configs(dumps: Iterable[Dump]) -> dict[str, list[GroupConfig]]:
    """All group configurations by name: names may be used twice, for other ranks."""
    found: dict[str, dict[tuple[int, ...], GroupConfig]] = defaultdict(dict)
    for dump in dumps:
        for name, config in dump.groups.items():
            if config.ranks:
                found[name].setdefault(config.ranks, config)
    return {name: list(each.values()) for name, each in found.items()}


def _config_key(config: GroupConfig, configs: Mapping[str, list[GroupConfig]]) -> str:
    if len(configs[config.name]) == 1:
        return config.name
    return f"{config.name} of {min(config.ranks)} to {max(config.ranks)} ({configs[config.name].index(config)})"


def _key(rank: int, name: str, config: GroupConfig | None, configs: Mapping[str, list[GroupConfig]]) -> str:
    """The own configuration tells the group apart; without one, the first of this name that has the rank."""
    known = configs.get(name, [])
    if config is not None and config.ranks:
        return _config_key(next(each for each in known if each.ranks == config.ranks), configs)
    fitting = next((each for each in known if rank in each.ranks), None)
    return _config_key(fitting, configs) if fitting is not None else name


def _group(
    key: str,
    config: GroupConfig,
    dumps: Mapping[int, Dump],
    told: tuple[Mapping[tuple[int, str], list[Work]], Mapping[tuple[int, str], Status]],
) -> Group:
    """A group from what is `told` of it: operations and counters, by rank and key."""
    dumped = frozenset(rank for rank in config.ranks if rank in dumps)
    works = {rank: told[0].get((rank, key), []) for rank in dumped}
    mixed = any(work.p2p for each in works.values() for work in each)
    positions = {}
    for rank in sorted(dumped):
        position = _position(works[rank], None if mixed else told[1].get((rank, key)))
        if position is None and not mixed and _would_tell(dumps[rank]):
            position = Position(called=-1, completed=-1, works={})
        if position is not None:
            positions[rank] = position
    label = f"{key} ({config.about})" if config.about else key
    return Group(key=key, label=label, members=config.ranks, mixed=mixed, positions=positions, dumped=dumped)


def _would_tell(dump: Dump) -> bool:
    """Whether a group that the dump does not mention has not been used by its rank."""
    return not dump.unplaced and (bool(dump.statuses) or any(work.is_done for work in dump.works))


def _position(works: list[Work], status: Status | None) -> Position | None:
    """From the operations that are listed, which are as of the dump; else from the counters, which lag a little."""
    by_seq: dict[int, list[Work]] = defaultdict(list)
    for work in works:
        if not work.p2p:
            by_seq[work.seq].append(work)
    if not by_seq and status is None:
        return None
    waiting = [seq for seq, each in by_seq.items() if not all(work.is_done for work in each)]
    called = max([*by_seq, *([] if status is None else [status.enqueued])])
    if waiting:
        completed = min(waiting) - 1
    elif status is not None:
        completed = max([status.completed, *by_seq])
    else:
        completed = max(by_seq)
    return Position(called=called, completed=completed, works={seq: tuple(each) for seq, each in by_seq.items()})
