"""The core of `relance diagnose` and `relance evaluate`: from the files that an attempt left to a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from relance.attribution import judge_runs
from relance.attribution.setaside import SetAside, set_aside
from relance.cli.packs import engine_of, pack_of
from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Finding
from relance.domain.progress import Progress
from relance.domain.verdicts import Verdict
from relance.domain.views import JobView
from relance.rules import Pack, Scanner
from relance.slurm.errors import SlurmError
from relance.slurm.hostlists import expand
from relance.watching.evidence import CaseEvidence, Context, EvidenceFile, Readers, gather
from relance.watching.finished import cases_of, read_finished
from relance.watching.hearing import reading_time

_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What reading needs, made once for any number of attempts: the rules, and the scanner that finds them."""

    pack: Pack
    scanner: Scanner


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What the files of a finished attempt come to.

    `findings` are those of the last run. `coverage` has a line for every file that was read, `left_out` one for every
    file that is no evidence. `ignored` are lines that look like faults and were set aside. `job` is what the
    scheduler's answer says of it, if there is one.
    """

    verdict: Verdict
    progress: Progress
    findings: tuple[Finding, ...]
    logs: tuple[str, ...]
    coverage: tuple[Coverage, ...]
    left_out: tuple[Coverage, ...]
    ignored: tuple[SetAside, ...]
    job: JobView | None
    engine: str
    scopes: frozenset[Scope] = frozenset()
    """The kinds of logs that there were."""
    nodes: tuple[str, ...] = ()
    """The nodes of the attempt, where they are known."""


class NothingToReadError(ValueError):
    """No file is evidence. Says what became of those that are there; empty where there are none."""


def means_of(config: Path | None) -> Means:
    """The rules in force and a scanner for them. Ends the command when a rule is broken."""
    pack = pack_of(config)
    return Means(pack=pack, scanner=Scanner(pack, engine=engine_of()))


def diagnosis_of(files: Sequence[EvidenceFile], given: Context, means: Means, now: datetime) -> Diagnosis:
    """Read the files of one attempt and judge it. Raises NothingToReadError, and OSError if a log cannot be read.

    `now` stands for the time of reading where no line bears a date; the diagnosis is the same whatever it is.
    """
    now = reading_time((partial(_readable, file) for file in files), now)
    evidence = gather(files, given, Readers(expand=_expanded, pack=means.pack), now)
    if evidence.is_empty:
        raise NothingToReadError(_why_nothing(evidence))
    finished = read_finished(evidence.logs, evidence.context, means.pack, now, means.scanner)
    cases = cases_of(finished, evidence.context, now, evidence)
    verdict = judge_runs(cases, by_hand=finished.by_hand)
    return Diagnosis(
        verdict=verdict,
        progress=cases[-1].progress or finished.progress,
        findings=cases[-1].findings,
        logs=tuple(dict.fromkeys(log.name for log in evidence.logs)),
        coverage=cases[-1].coverage,
        left_out=evidence.left_out,
        ignored=set_aside(cases, verdict),
        job=evidence.job,
        engine=means.scanner.engine,
        scopes=frozenset(log.scope for log in evidence.logs),
        nodes=evidence.context.nodes,
    )


def _readable(file: EvidenceFile) -> Iterator[bytes]:
    """The bytes of a file as far as it can be read: what cannot be read is told where it is read for good."""
    with suppress(OSError):
        yield from file.chunks()


def _why_nothing(evidence: CaseEvidence) -> str:
    """What became of the files that were there, if there were any."""
    told = [f"{item.source}: {item.note}" for item in (*evidence.coverage, *evidence.left_out)]
    rest = f"; and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    return "; ".join(told[:_TOLD]) + rest


def _expanded(shown: str) -> tuple[str, ...]:
    """The names of Slurm's short list of nodes; none for what is no such list."""
    try:
        return expand(shown)
    except SlurmError:
        return ()
