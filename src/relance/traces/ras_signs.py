"""What answers of NCCL's RAS say together: ranks that are dead, silent or behind, and communicators in error.

Counts that differ in one answer mean nothing: collectives outrun the question. They count if they stay the same over
several. A communicator without complete data is a blind spot, never a sign of health.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from relance.traces.ras import Communicator, Member, Process, RasAnswer
from relance.traces.signs import RankHost, SignKind, TraceSign, listed

_LOST = frozenset({"PEER_DEAD", "PEER_TIMEOUT_DEAD"})
_SILENT = frozenset({"PEER_UNRESPONSIVE", "PEER_KEEPALIVE_TIMEOUT", "PEER_SEND_STUCK"})
_BACK = frozenset({"PEER_RECOVERED", "PEER_CONNECTED"})
_OTHER_ENDS = "remote error"

_Key = tuple[str, int | None, int | None]


def signs_of_answers(answers: Iterable[RasAnswer]) -> tuple[TraceSign, ...]:
    """What the answers say, in the order of their times where they have them, else as given; the surest sign first."""
    ordered = _in_order(answers)
    if not ordered:
        return ()
    ranks = _job_ranks(ordered)
    last = [answer for answer in ordered if answer.tells][-1:]
    signs = [sign for answer in last for sign in (*_lost(ordered, answer, ranks), *_errors(answer, ranks))]
    signs += _stuck(ordered, ranks)
    signs += [sign for answer in last for sign in _partial(answer)]
    signs += _events(ordered, ranks)
    return tuple(sorted(signs, key=lambda sign: (-sign.confidence, sign.kind.value, sign.ranks, sign.group)))


def rank_hosts_of(answers: Iterable[RasAnswer]) -> tuple[RankHost, ...]:
    """Where the job's ranks run, as the answers have it."""
    ordered = _in_order(answers)
    files = {key: answer.file for answer in ordered for key in _keys(answer)}
    found = {
        rank: RankHost(rank=rank, host=key[0], pid=key[1], gpu=key[2], file=files.get(key, ""))
        for key, rank in _job_ranks(ordered).items()
    }
    return tuple(found[rank] for rank in sorted(found))


def _in_order(answers: Iterable[RasAnswer]) -> list[RasAnswer]:
    given = sorted(answers, key=lambda answer: (answer.file, answer.line))
    if all(answer.at for answer in given):
        return sorted(given, key=lambda answer: (answer.at.timestamp() if answer.at else 0.0, answer.file, answer.line))
    return given


def _key(process: Process) -> _Key:
    return process.host, process.pid, process.gpu


def _keys(answer: RasAnswer) -> list[_Key]:
    return [_key(each.process) for comm in answer.communicators for each in comm.members if each.process is not None]


def _job_ranks(answers: Sequence[RasAnswer]) -> dict[_Key, int]:
    """Ranks of the job by host, process and GPU, from communicators that span it."""
    found: dict[_Key, int] = {}
    for answer in answers:
        for comm in answer.communicators:
            if _spans(comm, answer):
                found |= {_key(each.process): each.rank for each in comm.members if each.process is not None}
    return found


def _spans(comm: Communicator, answer: RasAnswer) -> bool:
    """Whether the ranks of a communicator are those of the job: it has as many as the job has GPUs, or the most."""
    sizes = [each.size for each in answer.communicators if each.size is not None]
    whole = max([*sizes, answer.size or 0], default=0)
    return comm.size is not None and comm.size == whole


def _rank_of(member: Member, comm: Communicator, answer: RasAnswer, ranks: Mapping[_Key, int]) -> int | None:
    if _spans(comm, answer):
        return member.rank
    return ranks.get(_key(member.process)) if member.process is not None else None


def _lost(ordered: Sequence[RasAnswer], last: RasAnswer, ranks: Mapping[_Key, int]) -> list[TraceSign]:
    """Ranks that are dead or silent in the last answer."""
    times = [answer for answer in ordered if answer.communicators]
    signs = []
    for dead in (True, False):
        lost: dict[object, tuple[int | None, Process | None]] = {}
        for comm in last.communicators:
            for each in comm.members:
                if each.dead is dead and (each.dead or each.unresponsive):
                    rank = _rank_of(each, comm, last, ranks)
                    place = each.process
                    lost.setdefault(_key(place) if place is not None else (comm.name, each.rank), (rank, place))
        for process in last.dead if dead else last.unresponsive:
            same = [key for key in lost if isinstance(key, tuple) and key[:2] == (process.host, process.pid)]
            numbered = next((rank for key, rank in ranks.items() if key[:2] == (process.host, process.pid)), None)
            if not same and not (numbered is None and any(place is None for _, place in lost.values())):
                lost[_key(process)] = (numbered, process)
        again = _seen_again(times, {key for key in lost if isinstance(key, tuple)})
        by_host: dict[str | None, list[tuple[int | None, Process | None]]] = defaultdict(list)
        for rank, place in lost.values():
            by_host[None if place is None else place.host].append((rank, place))
        signs += [_lost_sign(host, each, last, dead=dead, again=again) for host, each in by_host.items()]
    return signs[:64]


def _seen_again(answers: Sequence[RasAnswer], lost: set[tuple[object, ...]]) -> bool:
    """Whether an earlier answer missed the same processes."""
    earlier = {
        _key(each.process)
        for answer in answers[:-1]
        for comm in answer.communicators
        for each in comm.members
        if each.missing and each.process is not None
    }
    return bool(lost & earlier)


def _lost_sign(
    host: str | None, lost: Sequence[tuple[int | None, Process | None]], last: RasAnswer, *, dead: bool, again: bool
) -> TraceSign:
    """All that is lost on one host: several at once are its fault, rather than each its own."""
    what = "considers dead" if dead else "gets no answer from"
    ranks = tuple(sorted(rank for rank, _ in lost if rank is not None))
    who = listed(ranks) if len(ranks) == len(lost) else f"{len(lost)} processes" if len(lost) > 1 else "a process"
    places = [place for _, place in lost if place is not None]
    numbers = ", ".join(str(place.pid) for place in places[:8] if place.pid is not None)
    where = f" on {host} (process {numbers})" if host is not None and numbers else ""
    confidence = 0.85 if dead else 0.6 if again else 0.45
    return TraceSign(
        kind=SignKind.RAS_RANK_DEAD if dead else SignKind.RAS_RANK_UNRESPONSIVE,
        because=f"NCCL {what} {who}{where}{', again' if again and not dead else ''}.",
        confidence=confidence if host is not None or ranks else confidence / 2,
        ranks=ranks,
        file=last.file,
        line=last.line,
        host=host,
        gpu=places[0].gpu if len(lost) == 1 and places else None,
        at=last.at,
    )


def _errors(last: RasAnswer, ranks: Mapping[_Key, int]) -> list[TraceSign]:
    """Ranks that report errors; those that only say that the other end failed are left out where others say more."""
    signs = []
    for comm in last.communicators:
        failed = [each for each in comm.members if each.error]
        first_hand = [each for each in failed if each.error != _OTHER_ENDS] or failed
        if not failed:
            continue
        whole = comm.size or len(comm.members)
        crowd = len(first_hand) > max(1, whole // 2)
        numbers = tuple(rank for each in first_hand if (rank := _rank_of(each, comm, last, ranks)) is not None)
        told = ", ".join(sorted({each.error for each in first_hand}))
        place = first_hand[0].process
        because = f"{len(failed)} of {whole} ranks of communicator {comm.name.split()[0]} report an error ({told})"
        because += ", too many to name one." if crowd else f", {listed(numbers)} first hand." if numbers else "."
        signs.append(
            TraceSign(
                kind=SignKind.RAS_ASYNC_ERROR,
                because=because,
                confidence=0.25 if crowd else 0.5,
                ranks=() if crowd else numbers,
                group=comm.name.split()[0],
                file=last.file,
                line=last.line,
                host=None if crowd or place is None else place.host,
                gpu=None if crowd or place is None else place.gpu,
                at=last.at,
            )
        )
    return signs[:16]


def _stuck(ordered: Sequence[RasAnswer], ranks: Mapping[_Key, int]) -> list[TraceSign]:
    """Communicators whose counts differ: stuck where they did not change over the last answers, else only a skew.

    Text lists communicators in trouble only: one that is missing in the last answer is well again.
    """
    seen: dict[str, list[tuple[Communicator, RasAnswer]]] = defaultdict(list)
    last = next((answer for answer in reversed(ordered) if answer.tells), None)
    for answer in ordered:
        for comm in answer.communicators:
            seen[comm.name].append((comm, answer))
    signs = []
    for history in seen.values():
        comm, answer = history[-1]
        if comm.mismatch and answer is last:
            same = _unchanged(history)
            signs.append(_stuck_sign(comm, answer, ranks, same) if same > 1 else _skew(comm, answer))
    return sorted(signs, key=lambda sign: -sign.confidence)[:16]


def _unchanged(history: Sequence[tuple[Communicator, RasAnswer]]) -> int:
    """How many of the last answers say the same as the last."""
    last = history[-1][0].state
    return len(list(takewhile(lambda item: item[0].state == last, reversed(history))))


def _stuck_sign(comm: Communicator, answer: RasAnswer, ranks: Mapping[_Key, int], queries: int) -> TraceSign:
    members = {each.rank: each for each in comm.members}
    behind = sorted(comm.behind, key=lambda rank: (-comm.behind[rank], rank))
    whole = comm.size or len(comm.members)
    most = comm.behind[behind[0]] if behind else 0
    late = [rank for rank in behind if comm.behind[rank] == most]
    numbers = tuple(
        number for rank in late if rank in members
        and (number := _rank_of(members[rank], comm, answer, ranks)) is not None
    )  # fmt: skip
    few = bool(late) and len(late) <= max(1, whole // 4)
    rest = max([comm.behind[rank] for rank in behind if comm.behind[rank] < most], default=0)
    confidence = (0.5 + 0.3 * (most - rest) / most) if few else 0.3
    who = f": {listed(numbers)} launched {most} fewer than the furthest" if numbers else ""
    name = comm.name.split()[0]
    because = f"Counts of collectives in communicator {name} differ and stayed so over {queries} queries{who}."
    place = members[late[0]].process if late and late[0] in members else None
    return TraceSign(
        kind=SignKind.RAS_COLLECTIVE_STUCK,
        because=because,
        confidence=round(confidence, 3),
        ranks=numbers if few else (),
        group=name,
        margin=float(most - rest) if few else None,
        margin_of="collectives" if few else "",
        file=answer.file,
        line=answer.line,
        host=None if place is None or not few else place.host,
        gpu=None if place is None or not few else place.gpu,
        at=answer.at,
    )


def _skew(comm: Communicator, answer: RasAnswer) -> TraceSign:
    name = comm.name.split()[0]
    because = (
        f"Counts of collectives in communicator {name} differ in one answer, as they do in a job at work; ask again."
    )
    return TraceSign(
        kind=SignKind.RAS_SKEW,
        because=because,
        confidence=0.05,
        group=name,
        file=answer.file,
        line=answer.line,
        at=answer.at,
    )


def _partial(last: RasAnswer) -> list[TraceSign]:
    names = [comm.name.split()[0] for comm in last.communicators if comm.incomplete]
    if not names:
        return []
    because = f"Communicator {', '.join(names[:4])} gave no complete data: what its missing ranks do is not seen."
    return [
        TraceSign(
            kind=SignKind.RAS_PARTIAL, because=because, confidence=0.1, group=names[0],
            file=last.file, line=last.line, at=last.at,
        )
    ]  # fmt: skip


def _events(ordered: Sequence[RasAnswer], ranks: Mapping[_Key, int]) -> list[TraceSign]:
    """Processes that the monitor lost and did not get back; the last event of each counts."""
    last = {(each.process.host, each.process.pid): (each, answer) for answer in ordered for each in answer.events
            if each.name in _LOST | _SILENT | _BACK}  # fmt: skip
    signs = []
    for (host, pid), (event, answer) in last.items():
        if event.name in _BACK:
            continue
        dead = event.name in _LOST
        rank = next((number for key, number in ranks.items() if key[:2] == (host, pid)), None)
        signs.append(
            TraceSign(
                kind=SignKind.RAS_RANK_DEAD if dead else SignKind.RAS_RANK_UNRESPONSIVE,
                because=f"NCCL's monitor {'lost' if dead else 'gets no answer from'} process {pid} on {host}.",
                confidence=0.8 if dead else 0.45,
                ranks=() if rank is None else (rank,),
                file=answer.file,
                line=answer.line,
                host=host,
                gpu=event.process.gpu,
                at=event.at,
            )
        )
    return signs[:64]
