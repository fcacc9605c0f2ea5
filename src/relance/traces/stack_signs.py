"""What the stacks of a job say together: equal ones are grouped, and a few that stand elsewhere are named.

A minority may be meant: one rank saves, evaluates or logs while the others wait. The sign says so and is less sure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from relance.traces.places import rank_of_name
from relance.traces.signs import SignKind, TraceSign, listed
from relance.traces.stacks import Stack
from relance.traces.standing import At, at_of, standing_of

_FEW = 0.25
"""Up to this share of the processes a group of stacks is a minority."""
_MOST = 0.5
"""From this share on a group is what the others are."""
_LEAST_PROCESSES = 3

_Key = tuple[tuple[str, str, int | None], ...]


def signs_of_stacks(stacks: Iterable[Stack]) -> tuple[TraceSign, ...]:
    """What the stacks say; of two stacks of one rank the later one counts."""
    working = _latest(_numbered([stack for stack in stacks if not stack.helper]))
    if not working:
        return ()
    groups = _grouped(working, _without_lines)
    by_lines = False
    if len(groups) == 1:
        finer = _grouped(working, _with_lines)
        if _minority(finer, len(working)):
            groups, by_lines = finer, True
    if len(groups) == 1:
        return (_all_equal(groups[0]),)
    minority = _minority(groups, len(working))
    if not minority:
        return (_undecided(groups),)
    majority = next(group for group in groups if group not in minority)
    signs = [_odd(each, majority, len(working), by_lines=by_lines) for each in minority]
    return tuple(sorted(signs, key=lambda sign: (-sign.confidence, sign.ranks, sign.file, sign.line or 0)))


def _numbered(stacks: Sequence[Stack]) -> Sequence[Stack]:
    """Stacks with ranks from their files' names, where these number all from 0 on: `stack_0.txt` and so on."""
    numbers = {stack.file: rank_of_name(stack.file) for stack in stacks}
    told = sorted(number for number in numbers.values() if number is not None)
    if (
        any(stack.rank is not None for stack in stacks)
        or len(numbers) < len(stacks)
        or told != list(range(len(stacks)))
    ):
        return stacks
    return [replace(stack, rank=numbers[stack.file]) for stack in stacks]


def _latest(stacks: Sequence[Stack]) -> list[Stack]:
    found: dict[object, Stack] = {}
    for stack in sorted(stacks, key=lambda stack: (stack.file, stack.line)):
        by_process = (stack.node or stack.file, stack.pid if stack.pid is not None else stack.line)
        found[stack.rank if stack.rank is not None else by_process] = stack
    return list(found.values())


def _without_lines(stack: Stack) -> _Key:
    return tuple((frame.function, frame.file, None) for frame in stack.frames)


def _with_lines(stack: Stack) -> _Key:
    return tuple((frame.function, frame.file, frame.line) for frame in stack.frames)


def _grouped(stacks: Sequence[Stack], key: Callable[[Stack], _Key]) -> list[list[Stack]]:
    """Equal stacks together, the largest group first."""
    found: dict[_Key, list[Stack]] = defaultdict(list)
    for stack in stacks:
        found[key(stack)].append(stack)
    return sorted(found.values(), key=lambda group: (-len(group), group[0].name))


def _minority(groups: Sequence[Sequence[Stack]], whole: int) -> list[Sequence[Stack]]:
    """Groups that are few beside those that wait, or beside one that most are in; others that wait are victims, too."""
    if whole < _LEAST_PROCESSES:
        waits = [at_of(group[0]) is At.COLLECTIVE for group in groups]
        return [group for group, each in zip(groups, waits, strict=True) if not each] if any(waits) else []
    busy = [group for group in groups if not at_of(group[0]).waits]
    active = sum(len(group) for group in busy)
    if busy and active <= max(1, _FEW * whole):
        return busy
    if len(groups[0]) < _MOST * whole:
        return []
    return [group for group in groups[1:] if len(group) <= max(1, _FEW * whole)]


def _odd(group: Sequence[Stack], majority: Sequence[Stack], whole: int, *, by_lines: bool) -> TraceSign:
    theirs, most = at_of(group[0]), at_of(majority[0])
    confidence, remark = _judged(theirs, most, by_lines=by_lines)
    if whole < _LEAST_PROCESSES:
        confidence, remark = confidence * 0.6, f"{remark}; only {whole} processes were looked at"
    ranks = tuple(sorted(stack.rank for stack in group if stack.rank is not None))
    if len(group) > 1:
        confidence *= 0.85
    if theirs.may_be_planned and 0 in ranks:
        confidence *= 0.75
    first = group[0]
    verb = "is" if len(group) == 1 else "are"
    because = (
        f"{_names(group)} {verb} {theirs.value}, in {standing_of(first).frame}, "
        f"while {len(majority)} of {whole} are {most.value}, in {standing_of(majority[0]).frame}{remark}."
    )
    return TraceSign(
        kind=SignKind.STACK_MINORITY,
        because=because,
        confidence=round(confidence, 3),
        ranks=ranks,
        op=standing_of(first).frame.function,
        margin=float(len(majority) - len(group)),
        margin_of="processes",
        file=first.file,
        line=first.line,
        node=first.node,
        details={"doing": theirs.name.lower()},
    )


def _judged(theirs: At, most: At, *, by_lines: bool) -> tuple[float, str]:
    """How sure a minority is, from what it and the others are at, and a remark."""
    if by_lines:
        return 0.3, "; both are in the same functions, on other lines"
    if theirs is At.DEBUGGER:
        return 0.1, "; somebody is looking into it"
    if theirs.may_be_planned:
        return 0.4, "; one rank may do this by itself as the program means it to"
    if most.waits and theirs.waits:
        return 0.35, "; both wait, in different operations: the program may call them in different orders"
    if most.waits:
        return 0.75, "; the others may wait for it"
    if theirs.waits:
        return 0.15, "; it may wait for the others"
    return 0.3, ""


def _all_equal(group: Sequence[Stack]) -> TraceSign:
    first = group[0]
    doing = at_of(first)
    many = len(group) >= _LEAST_PROCESSES
    if doing.waits and many:
        because = (
            f"All {len(group)} processes are {doing.value}, in {standing_of(first).frame}: their stacks blame nobody."
        )
        return _sign(SignKind.STACK_ALL_WAITING, because, 0.6, first)
    subject = f"All {len(group)} processes are" if len(group) > 1 else f"{_names(group)} is"
    because = f"{subject} {doing.value}, in {standing_of(first).frame}."
    return _sign(SignKind.STACK_UNDECIDED, because, 0.2, first)


def _undecided(groups: Sequence[Sequence[Stack]]) -> TraceSign:
    whole = sum(len(group) for group in groups)
    doing = [at_of(group[0]) for group in groups]
    if all(each.waits for each in doing) and whole >= _LEAST_PROCESSES:
        because = (
            f"All {whole} processes wait in collectives or for their GPUs, in {len(groups)} places: nobody is odd."
        )
        return _sign(SignKind.STACK_ALL_WAITING, because, 0.5, groups[0][0])
    shown = "; ".join(f"{len(group)} in {standing_of(group[0]).frame}" for group in groups[:4])
    because = f"{whole} processes stand in {len(groups)} places ({shown}): no few stand out."
    return _sign(SignKind.STACK_UNDECIDED, because, 0.1, groups[0][0])


def _sign(kind: SignKind, because: str, confidence: float, stack: Stack) -> TraceSign:
    return TraceSign(
        kind=kind,
        because=because,
        confidence=confidence,
        op=standing_of(stack).frame.function,
        file=stack.file,
        line=stack.line,
    )


def _names(group: Sequence[Stack]) -> str:
    ranks = tuple(sorted(stack.rank for stack in group if stack.rank is not None))
    if len(ranks) == len(group):
        return listed(ranks).capitalize()
    names = ", ".join(stack.name for stack in group[:4])
    return names[:1].upper() + names[1:]
