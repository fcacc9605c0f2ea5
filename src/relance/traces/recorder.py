"""What flight-recorder dumps say together: who is idle, missing, late or different, or that nobody is.

Confidence comes from the gap to the next rank, from whether others wait for the rank, and from how many ranks left a
dump. Figures of confidence are a first setting, from four public sets of dumps and from generated ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from relance.traces.collectives import Job, job_of
from relance.traces.documents import moment
from relance.traces.dumps import Dump
from relance.traces.lateness import lag_of
from relance.traces.mismatches import Mismatch, mismatches_of
from relance.traces.signs import SignKind, TraceSign, listed
from relance.traces.stalls import stalls_of
from relance.traces.waits import Wait, Waits, waits_of

_FEW = 0.25
"""Up to this share of the ranks, odd ranks are few."""
_MANY = 0.5
_MOST_GROUPS = 2
_POINTERS = frozenset({
    SignKind.FR_IDLE_RANK, SignKind.FR_LAGGARD, SignKind.FR_MISSING_RANK, SignKind.FR_COLLECTIVE_MISMATCH,
    SignKind.FR_ORDER_CYCLE, SignKind.FR_TRANSPORT_STALL, SignKind.FR_GPU_STALL, SignKind.FR_NO_DUMP,
})  # fmt: skip


def signs_of_dumps(dumps: Iterable[Dump]) -> tuple[TraceSign, ...]:
    """What the dumps of a job say, the surest sign first; nothing if no rank waits in a collective."""
    job = job_of(dumps)
    waits = waits_of(job)
    if not waits.by_rank:
        return ()
    mismatches = mismatches_of(job)
    idle = _idle(job, waits)
    late = [] if idle else _laggards(job, waits)
    signs = [
        *(_mismatch(job, each) for each in mismatches),
        *idle,
        *late,
        *_missing(job, waits),
        *_no_dump(job, waits),
        *_gaps(job, waits),
        *_circle(waits, mismatches),
        *_stalls(job, waits, mismatches, pointed=bool(idle or late)),
    ]
    if not any(sign.kind in _POINTERS and sign.confidence >= 0.3 for sign in signs):  # noqa: PLR2004 - below, a sign decides nothing
        signs.append(_undecided(job, waits))
    signs += _wavefront(job, waits)
    known = [_with_file(sign, job) for sign in signs]
    return tuple(sorted(known, key=lambda sign: (-sign.confidence, sign.kind.value)))


def _idle(job: Job, waits: Waits) -> list[TraceSign]:
    """Rule A: nothing outstanding in any group, while others wait, for it where it is the culprit."""
    idle = [rank for rank, dump in job.dumps.items() if dump.is_idle]
    awaited = [rank for rank in idle if waits.ends.get(rank)]
    chosen = tuple(sorted(awaited or idle, key=lambda rank: (-waits.ends.get(rank, 0), rank)))
    if not chosen:
        return []
    confidence = 0.9 if awaited else 0.4
    share = len(chosen) / len(job.dumps)
    crowd = ""
    if share > _FEW:
        confidence *= 0.4 if share > _MANY else 0.7
        crowd = ", though so many that they may do something of their own, such as a save or an evaluation"
    waiting = len(waits.by_rank)
    for_it = f", {waits.ends[chosen[0]]} of them for rank {chosen[0]}" if awaited else ""
    first = _first_wait(waits, chosen[:1])
    because = (
        f"{_have(chosen)} no collective outstanding while {waiting} others wait{for_it}: "
        f"stuck outside collectives (data loading, CPU, a lock, a save){crowd}."
    )
    sign = _pointing(SignKind.FR_IDLE_RANK, because, confidence * _known(job), chosen, first)
    return [sign]


def _laggards(job: Job, waits: Waits) -> list[TraceSign]:
    """Rule B: the ranks whose collectives complete behind everybody else's; a ranking, never a threshold."""
    lag = lag_of(job)
    if lag is None:
        return []
    confidence = 0.45 + 0.4 * lag.share
    if lag.most == 1:
        confidence *= 0.8
    if not any(waits.ends.get(rank) for rank in lag.ranks):
        confidence *= 0.7
    if len(lag.ranks) > _FEW * len(job.dumps):
        confidence *= 0.6
    behind = f"{_have(lag.ranks)} completed up to {lag.most} collectives fewer than their groups"
    because = f"{behind}, and the next rank {lag.next_lag}: a GPU or its stream no longer moves."
    own = [waits.by_rank[rank] for rank in lag.ranks if rank in waits.by_rank]
    sign = _pointing(SignKind.FR_LAGGARD, because, confidence * _known(job), lag.ranks, own[0] if own else None)
    return [replace(sign, margin=float(lag.margin), margin_of="collectives")]


def _missing(job: Job, waits: Waits) -> list[TraceSign]:
    """Ranks that did not join what others wait in, and wait for nothing themselves."""
    found: dict[tuple[str, int], list[int]] = {}
    ops: dict[tuple[str, int], Wait] = {}
    for rank, count in waits.ends.items():
        if not count or rank not in job.dumps or rank in waits.by_rank:
            continue
        for wait in waits.waiting_for(rank):
            if not wait.p2p:
                found.setdefault((wait.group, wait.seq), []).append(rank)
                ops.setdefault((wait.group, wait.seq), wait)
    signs = []
    for key, missing in sorted(found.items(), key=lambda item: (ops[item[0]].began_ns or 0, item[0])):
        ranks = tuple(sorted(set(missing), key=lambda rank: (-waits.ends[rank], rank)))
        members = len(job.groups[key[0]].members)
        few = len(ranks) <= max(1, members // 2)
        waiting = len([wait for wait in waits.waiting_for(ranks[0]) if (wait.group, wait.seq) == key])
        because = f"{_have(ranks)} not joined {_named(ops[key], job)}, in which {waiting} of {members} members wait."
        signs.append(_pointing(SignKind.FR_MISSING_RANK, because, (0.8 if few else 0.4) * _known(job), ranks, ops[key]))
    return signs


def _no_dump(job: Job, waits: Waits) -> list[TraceSign]:
    """Ranks without a dump: they may have died, or hold the lock that writing one takes; or nobody kept their files."""
    if not job.silent:
        return []
    awaited = tuple(rank for rank in job.silent if waits.ends.get(rank))
    ranks = tuple(sorted(awaited or job.silent, key=lambda rank: (-waits.ends.get(rank, 0), rank)))
    few = len(job.silent) <= _FEW * len(job.world)
    confidence = (0.65 if awaited else 0.35) if few else 0.15
    tail = "it may have died, or be stuck where it cannot write one" if few else "their files may not have been kept"
    wait = f", and {waits.ends[ranks[0]]} ranks wait for rank {ranks[0]}" if awaited else ""
    because = f"{_have(ranks)} left no dump{wait}: {tail}."
    named = ranks if few else ()
    return [_pointing(SignKind.FR_NO_DUMP, because, confidence, named, _first_wait(waits, ranks[:1]))]


def _gaps(job: Job, waits: Waits) -> list[TraceSign]:
    """Sends and receives whose other side has not called its part, and waits for nothing."""
    signs = []
    seen: set[tuple[int, int]] = set()
    for rank, wait in sorted(waits.by_rank.items()):
        silent = next(iter(wait.on), None)
        if not wait.p2p or wait.pair is None or silent is None or wait.pair in seen or waits.by_rank.get(silent):
            continue
        seen.add(wait.pair)
        sender, receiver = wait.pair
        because = (
            f"Rank {rank} waits in the {wait.op} of {sender} -> {receiver} (group {job.groups[wait.group].label}), "
            f"and rank {silent} has not called its part."
        )
        signs.append(_pointing(SignKind.FR_P2P_GAP, because, 0.5 * _known(job), (silent,), wait))
    return signs[:8]


def _stalls(job: Job, waits: Waits, mismatches: Sequence[Mismatch], *, pointed: bool) -> list[TraceSign]:
    """What all joined and does not complete; less sure where a rank is to blame, for whom the others may wait."""
    found = stalls_of(job, waits, frozenset((each.group, each.seq) for each in mismatches))
    return [replace(sign, confidence=round(sign.confidence / 2, 3)) for sign in found] if pointed else found


def _circle(waits: Waits, mismatches: Sequence[Mismatch]) -> list[TraceSign]:
    if not waits.circles or mismatches:
        return []
    groups = sorted({waits.by_rank[rank].group for rank in waits.circles})
    first = waits.by_rank[waits.circles[0]]
    because = (
        f"{listed(waits.circles).capitalize()} wait for one another in the groups {', '.join(groups[:4])}: "
        "they called collectives in different orders."
    )
    return [_pointing(SignKind.FR_ORDER_CYCLE, because, 0.5 if len(groups) > 1 else 0.3, waits.circles, first)]


def _mismatch(job: Job, found: Mismatch) -> TraceSign:
    odd = f" ({listed(found.odd)} differ)" if found.odd else ""
    proof = " The program calls collectives in different orders." if found.what == "operation" else ""
    because = (
        f"Ranks joined collective {found.seq} of group {job.groups[found.group].label} with another {found.what}: "
        f"{found.usual} and {found.other}{odd}.{proof}"
    )
    return TraceSign(
        kind=SignKind.FR_COLLECTIVE_MISMATCH,
        because=because,
        confidence=0.92 if found.what == "operation" else 0.8,
        ranks=found.odd,
        group=found.group,
        seq=found.seq,
        op=found.op,
        at=moment(found.began_ns),
    )


def _wavefront(job: Job, waits: Waits) -> list[TraceSign]:
    """The groups at which chains end."""
    counts: dict[str, int] = {}
    for wait in waits.by_rank.values():
        if not wait.on or any(not waits.by_rank.get(rank) for rank in wait.on):
            counts[wait.group] = counts.get(wait.group, 0) + 1
    signs = []
    for key in sorted(counts, key=lambda key: (-counts[key], key))[:_MOST_GROUPS]:
        waiting = tuple(rank for rank, wait in waits.by_rank.items() if wait.group == key)
        label = job.groups[key].label
        because = f"Group {label} waits for no other group; {listed(waiting)} {_verb(waiting)} in it. Look here first."
        first = waits.by_rank[waiting[0]]
        signs.append(_pointing(SignKind.FR_WAVEFRONT_GROUP, because, 0.1, (), first))
    return signs


def _undecided(job: Job, waits: Waits) -> TraceSign:
    seen = f"{len(job.dumps)} of {len(job.world)} ranks left a dump"
    because = f"{len(waits.by_rank)} ranks wait in collectives, and the dumps do not tell for whom; {seen}."
    return TraceSign(kind=SignKind.FR_UNDECIDED, because=because, confidence=0.1, ranks=())


def _pointing(kind: SignKind, because: str, confidence: float, ranks: tuple[int, ...], wait: Wait | None) -> TraceSign:
    return TraceSign(
        kind=kind,
        because=because,
        confidence=round(confidence, 3),
        ranks=ranks,
        group="" if wait is None else wait.group,
        seq=None if wait is None else wait.seq,
        op="" if wait is None else wait.op,
        at=None if wait is None else moment(wait.began_ns),
    )


def _first_wait(waits: Waits, ranks: Sequence[int]) -> Wait | None:
    """The earliest operation in which others wait for these ranks."""
    found = [wait for rank in ranks for wait in waits.waiting_for(rank)]
    return min(found, key=lambda wait: (wait.p2p, wait.began_ns or 0, wait.group), default=None)


def _named(wait: Wait, job: Job) -> str:
    return f"{wait.op or 'collective'} {wait.seq} of group {job.groups[wait.group].label}"


def _known(job: Job) -> float:
    """How much the dumps that are there can tell of all ranks."""
    return 0.5 + 0.5 * job.coverage


def _have(ranks: tuple[int, ...]) -> str:
    return f"{listed(ranks).capitalize()} {'has' if len(ranks) == 1 else 'have'}"


def _verb(ranks: tuple[int, ...]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def _with_file(sign: TraceSign, job: Job) -> TraceSign:
    """The sign with the dump that shows it: of the first rank, else of any."""
    dumps: Mapping[int, Dump] = job.dumps
    own = next((dumps[rank] for rank in sign.ranks if rank in dumps), None)
    shown = own or next(iter(dumps.values()))
    node = own.node if own is not None and own.rank == sign.ranks[0] else None
    return replace(sign, file=shown.file, node=node)
