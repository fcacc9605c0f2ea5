"""Operations that all ranks joined and that do not complete: nobody is late; the network or a GPU stands still."""

from __future__ import annotations

from relance.traces.collectives import Job
from relance.traces.documents import moment
from relance.traces.dumps import WorkState
from relance.traces.signs import SignKind, TraceSign, listed
from relance.traces.waits import Wait, Waits

_MOST = 4


def stalls_of(job: Job, waits: Waits, different: frozenset[tuple[str, int]]) -> list[TraceSign]:
    """A sign for each operation in which ranks wait for nobody; `different` are those that they joined differently."""
    held: dict[tuple[str, int], Wait] = {}
    for rank in waits.ends:
        wait = waits.by_rank.get(rank)
        if wait is not None and (wait.group, wait.seq) not in different:
            held.setdefault((wait.group, wait.seq), wait)
    oldest = sorted(held.values(), key=lambda wait: (wait.began_ns or 0, wait.group, wait.seq))
    return [_stall(job, wait) for wait in oldest[:_MOST]]


def _stall(job: Job, wait: Wait) -> TraceSign:
    group = job.groups[wait.group]
    if wait.p2p:
        pair = wait.pair or ()
        ends = f"{pair[0]} -> {pair[1]}" if pair else wait.op
        because = f"Both ends of {ends} (group {group.label}) called their part, and it does not complete."
        return _sign(SignKind.FR_TRANSPORT_STALL, because, 0.35, (), wait)
    named = f"{wait.op or 'collective'} {wait.seq} of group {group.label}"
    done = [rank for rank, each in group.positions.items() if each.completed >= wait.seq]
    waiting = tuple(rank for rank, each in sorted(group.positions.items()) if each.completed < wait.seq <= each.called)
    if done:
        share = f"{len(done)} of {len(group.members)} ranks"
        because = f"{named[:1].upper()}{named[1:]} is complete on {share} and not on {listed(waiting)}."
        return _sign(SignKind.FR_STATE_MISMATCH, because, 0.3, waiting, wait)
    started = {
        rank
        for rank in waiting
        for work in group.positions[rank].works.get(wait.seq, ())
        if work.state is WorkState.STARTED
    }
    unstarted = tuple(rank for rank in waiting if rank not in started)
    if job.tells_starts and started and unstarted:
        because = f"All members joined {named}, and on {listed(unstarted)} the GPU has not begun it."
        few = len(unstarted) <= len(waiting) // 2
        return _sign(SignKind.FR_GPU_STALL, because, 0.6 if few else 0.35, unstarted, wait)
    begun = "began" if job.tells_starts and started else "joined"
    because = f"All {len(waiting)} members {begun} {named}, and it does not complete: look at the links between them."
    return _sign(SignKind.FR_TRANSPORT_STALL, because, 0.6 if begun == "began" else 0.45, (), wait)


def _sign(kind: SignKind, because: str, confidence: float, ranks: tuple[int, ...], wait: Wait) -> TraceSign:
    return TraceSign(
        kind=kind,
        because=because,
        confidence=confidence,
        ranks=ranks,
        group=wait.group,
        seq=wait.seq,
        op=wait.op,
        at=moment(wait.began_ns),
    )
