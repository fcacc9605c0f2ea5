"""Rules and blocks for the tests of the rules."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import RuleHit
from relance.domain.observations import LogBlock
from relance.rules.formats import Pack, Rule
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.rules.scanning import Scanner, ScanResult, ScanState

READ_AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@cache
def packaged() -> Pack:
    return load_pack(read_texts())


@cache
def scanner() -> Scanner:
    return Scanner(packaged())


def rule(identifier: str, pattern: str, **values: Any) -> Rule:  # noqa: ANN401 - fields of a rule
    default: dict[str, Any] = {
        "title": identifier,
        "group": "own",
        "symptom": identifier.replace("-", "_"),
        "domain": FaultDomain.APPLICATION,
        "role": Role.ROOT,
        "suspect": SuspectKind.NONE,
        "restart": RestartHint.ONCE,
        "weight": 0.5,
        "scopes": frozenset({Scope.APPLICATION}),
        "source": "a test",
        "hit": (),
        "miss": (),
    }
    return Rule(**{**default, **values, "id": identifier, "pattern": pattern})


def pack(*rules: Rule) -> Pack:
    return Pack(rules=rules)


def block(data: bytes, offset: int = 0, **values: Any) -> LogBlock:  # noqa: ANN401 - fields of a block
    default: dict[str, Any] = {"file": "job.log", "scope": Scope.APPLICATION, "read_at": READ_AT, "line": 1}
    return LogBlock(**{**default, **values, "data": data, "offset": offset})


def scan(data: bytes, with_pack: Pack | None = None, **values: Any) -> ScanResult:  # noqa: ANN401 - fields of a block
    using = Scanner(with_pack) if with_pack else scanner()
    return using.scan(block(data, **values), ScanState())[1]


def scan_pieces(pieces: list[bytes], using: Scanner | None = None, overlap: int = 0) -> list[ScanResult]:
    """The pieces of one file, one after the other; each but the first begins `overlap` bytes before the last's end."""
    state, offset, results = ScanState(), 0, []
    for number, piece in enumerate(pieces):
        back = overlap if number else 0
        state, result = (using or scanner()).scan(block(piece, offset - back, overlap=back, line=None), state)
        offset += len(piece) - back
        results.append(result)
    return results


def hits(results: list[ScanResult]) -> list[RuleHit]:
    return [hit for result in results for hit in result.hits]


def by_rule(result: ScanResult, identifier: str) -> list[RuleHit]:
    return [hit for hit in result.hits if hit.rule == identifier]
