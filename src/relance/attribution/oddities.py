"""Odd ones out of a hang: which nodes stood out, and whether that makes them suspects.

A rank that is not where the others wait is as often the program's own doing (a race in its data loader, a save) as its
node's: leaving that node out would be wrong (numbers.md 4.2). What the host says of itself is another matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from relance.attribution.suspicions import WEAK_WINDOW
from relance.domain.findings import Finding, Sign
from relance.domain.verdicts import CaseFile, Strength, Suspect

_OF_A_HOST = frozenset({Sign.KERNEL, Sign.DEVICE, Sign.NODE_DOWN})
"""What the kernel, the devices, or the scheduler say of a node: enough alone."""
_OF_A_PROGRAM = frozenset({Sign.COLLECTIVE, Sign.STACKS, Sign.GPU_SIGNATURE})
"""Where a node's processes stand: with a telemetry that ended there, too, it is the node."""
_SAID = {
    Sign.KERNEL: "its kernel told of a fault",
    Sign.DEVICE: "its metrics told of a fault",
    Sign.NODE_DOWN: "the scheduler lost it",
    Sign.NODE_SILENT: "its telemetry ended",
    Sign.COLLECTIVE: "its ranks were not where the others waited",
    Sign.STACKS: "its stacks differed",
    Sign.GPU_SIGNATURE: "its GPUs did something else than the others",
}


def odd_ones(findings: Iterable[Finding], case: CaseFile) -> tuple[Suspect, ...]:
    """The nodes that stood out in hangs, as suspects; those with hard evidence first.

    The first node stands out by its GPUs in every save that one rank makes for all: that alone names nobody.
    """
    by: dict[str, set[Sign]] = defaultdict(set)
    for finding in findings:
        for odd in finding.odd:
            by[odd.node] |= odd.by
    suspects = [
        Suspect(node=node, strength=_strength(signs), reason=_reason(signs), before=_before(node, case))
        for node, signs in by.items()
        if signs != {Sign.GPU_SIGNATURE} or node not in case.nodes[:1]
    ]
    return tuple(sorted(suspects, key=lambda item: (item.strength is Strength.WEAK, item.node)))


def _before(node: str, case: CaseFile) -> tuple[datetime, ...]:
    """When the node was suspected earlier, for whatever reason, within the window in which that counts."""
    known = [(suspect.node, at) for _, suspect, at in case.node_history]
    known += [(suspect.node, item.ended_at or case.as_of) for item in case.earlier for suspect in item.suspects]
    since = case.as_of - WEAK_WINDOW
    return tuple(sorted({at for name, at in known if name == node and since <= at <= case.as_of}))


def _strength(signs: set[Sign]) -> Strength:
    both = Sign.NODE_SILENT in signs and bool(signs & _OF_A_PROGRAM)
    return Strength.HARD if signs & _OF_A_HOST or both else Strength.WEAK


def _reason(signs: set[Sign]) -> str:
    told = [_SAID[sign] for sign in sorted(signs, key=lambda sign: sign.value) if sign in _SAID]
    return f"it stood out when the job hung: {', '.join(told)}"
