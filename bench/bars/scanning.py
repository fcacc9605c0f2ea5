"""Scanning: how much of the bare engine's rate is left when a log is read, scanned by all rules, and understood."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import hyperscan

from bench.job_logs import STORM_SHARE, JobLog, Written, write_job_log
from bench.measures import Limit, Result
from relance.domain.faults import Scope
from relance.domain.log_texts import LogText
from relance.domain.observations import LogBlock
from relance.domain.progress import StepSeen
from relance.progress import ProgressReader, ReaderState
from relance.rules import Pack, Scanner, ScanState
from relance.rules.finders import finder
from relance.rules.hyperscans import HyperscanEngine
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.rules.patterns import Pattern
from relance.watching.finished import FinishedLog, blocks_of

_SIZE_BYTES, _QUICK_BYTES = 1_000_000_000, 100_000_000
_PART_BYTES, _QUICK_PART_BYTES = 100_000_000, 20_000_000
"""What the slow ones are measured on, and the storm."""
_BLOCK_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 23
_ROUNDS = 3
_READ_AT = datetime(2026, 6, 1, tzinfo=UTC)
_SAMPLE_BYTES = 1_000_000
_SLOWEST = 10
_STORM_KINDS = 12
"""What a job says when it falls apart is a lot of little: each rank says the same few things again and again."""
_RATE, _AGAINST_RG, _PROGRESS, _STORM = 0.75, 2.5, 0.35, 0.45


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The logs of one run, and what scans them."""

    quiet: Path
    part: Path
    storm: Path
    written: Written
    stormy: Written
    pack: Pack
    scanner: Scanner
    database: Any
    """The bare engine's."""


def measure(*, quick: bool) -> Result:
    """Scan a log on one core in several ways, in turn, and compare the rates."""
    with tempfile.TemporaryDirectory() as folder, _one_core():
        sizes = (_QUICK_BYTES, _QUICK_PART_BYTES) if quick else (_SIZE_BYTES, _PART_BYTES)
        made = _made(Path(folder), *sizes)
        methods: dict[str, Callable[[], float]] = {
            "bare": lambda: _bare(made),
            "scan": lambda: _rate(made.quiet, lambda: _scanned(made.quiet, made.scanner)),
            "progress": lambda: _rate(made.quiet, lambda: _with_progress(made.quiet, made.scanner)),
            "storm": lambda: _rate(made.storm, lambda: _scanned(made.storm, made.scanner)),
            "rg": lambda: _rg(made),
        }
        rates: dict[str, list[float]] = {name: [] for name in methods}
        for _ in range(_ROUNDS):
            for name, method in methods.items():
                rates[name].append(method())
        wrong, slowest = _wrong(made), _slowest(made)
    return _result(rates, made, wrong, slowest)


def _result(rates: dict[str, list[float]], made: Made, wrong: list[str], slowest: dict[str, float]) -> Result:
    def ratio(name: str, to: str) -> float:
        return round(statistics.median(ours / theirs for ours, theirs in zip(rates[name], rates[to], strict=True)), 3)

    medians = {name: statistics.median(each) for name, each in rates.items()}
    line_bytes = made.written.size_bytes / made.written.lines
    return Result(
        name="scanning",
        measure="A job's log scanned by all rules on one core: rates beside the bare engine's and ripgrep's",
        limits=(
            Limit(name="scan_rate", value=ratio("scan", "bare"), most=_RATE, unit="x bare", is_least=True),
            Limit(name="scan_vs_rg", value=ratio("scan", "rg"), most=_AGAINST_RG, unit="x rg", is_least=True),
            Limit(name="scan_progress", value=ratio("progress", "bare"), most=_PROGRESS, unit="x bare", is_least=True),
            Limit(name="scan_storm", value=ratio("storm", "bare"), most=_STORM, unit="x bare", is_least=True),
        ),
        figures={
            "gb_per_s": {name: round(each, 3) for name, each in medians.items()},
            "lines_per_s": {name: round(each * 1e9 / line_bytes) for name, each in medians.items()},
            "rules": sum(Scope.APPLICATION in rule.scopes for rule in made.pack.rules),
            "lines": made.written.lines,
            "progress_lines": made.written.steps,
            "storm_lines": made.stormy.lines,
            "storm_lines_that_match": len(made.stormy.signs),
            "engine": made.scanner.engine,
            "slowest_rules_gb_per_s": slowest,
        },
        wrong=tuple(wrong),
        conditions=(
            f"{made.written.size_bytes / 1e9:.1f} GB of eight ranks, {line_bytes:.0f} bytes a line, 20 % of them "
            "progress, one sign in 100,000 lines; read from the page cache, in blocks of 1 MiB; processor time of one "
            f"core, medians of {_ROUNDS} rounds in turn; bare: the engine alone over a buffer in memory, the same "
            "patterns, an empty callback; progress: every step line read too; storm: "
            f"{STORM_SHARE:.0%} of the lines match, against the bare engine on the quiet log; rg: "
            f"`rg --no-unicode -c -f` with the same patterns over {made.stormy.size_bytes / 1e6:.0f} MB"
        ),
    )


def _made(folder: Path, size: int, part_size: int) -> Made:
    pack = load_pack(read_texts())
    quiet, part, storm = folder / "quiet.log", folder / "part.log", folder / "storm.log"
    written = write_job_log(quiet, JobLog(size_bytes=size), pack)
    write_job_log(part, JobLog(size_bytes=part_size), pack)
    stormy = write_job_log(storm, JobLog(size_bytes=part_size, signs=STORM_SHARE, kinds=_STORM_KINDS), pack)
    scanner = Scanner(pack)
    scanner.prepare()
    return Made(
        quiet=quiet,
        part=part,
        storm=storm,
        written=written,
        stormy=stormy,
        pack=pack,
        scanner=scanner,
        database=_database(_patterns(pack)),
    )


def _patterns(pack: Pack) -> list[Pattern]:
    rules = [rule for rule in pack.rules if Scope.APPLICATION in rule.scopes and not rule.traceback]
    return [Pattern(text=rule.pattern, ignore_case=rule.ignore_case) for rule in rules]


def _blocks(path: Path) -> Iterator[LogBlock]:
    def chunks() -> Iterator[bytes]:
        with path.open("rb", buffering=0) as file:
            while data := file.read(_CHUNK_BYTES):
                yield data

    return blocks_of(FinishedLog(name=path.name, chunks=chunks), _READ_AT)


def _rate(path: Path, work: Callable[[], object]) -> float:
    """GB a second of processor time."""
    begun = time.process_time()
    work()
    return path.stat().st_size / (time.process_time() - begun) / 1e9


def _database(patterns: list[Pattern]) -> Any:  # noqa: ANN401 - of the wheel
    database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_MULTILINE
    database.compile(
        expressions=[finder(pattern.text).text.encode() for pattern in patterns],
        flags=[flags | (hyperscan.HS_FLAG_CASELESS if pattern.ignore_case else 0) for pattern in patterns],
    )
    return database


def _bare(made: Made) -> float:
    database = made.database
    scratch = hyperscan.Scratch(database)
    data = memoryview(made.part.read_bytes())
    blocks = [data[at : at + _BLOCK_BYTES] for at in range(0, len(data), _BLOCK_BYTES)]

    def ignore(*_: object) -> None:
        pass

    def work() -> None:
        for block in blocks:
            database.scan(block, match_event_handler=ignore, scratch=scratch)

    return _rate(made.part, work)


def _slowest(made: Made) -> dict[str, float]:
    """The rules that are slowest when each is alone: the first to look at when the bare engine is slow."""
    with made.part.open("rb") as file:
        data = file.read(_SAMPLE_BYTES)
    rates: dict[str, float] = {}
    for rule in made.pack.rules:
        if Scope.APPLICATION in rule.scopes and not rule.traceback:
            engine = HyperscanEngine([Pattern(text=rule.pattern, ignore_case=rule.ignore_case)])
            begun = time.process_time()
            engine.find(data)
            rates[rule.id] = round(len(data) / (time.process_time() - begun) / 1e9, 3)
    return dict(sorted(rates.items(), key=itemgetter(1))[:_SLOWEST])


def _scanned(path: Path, scanner: Scanner) -> int:
    state, hits = ScanState(), 0
    for block in _blocks(path):
        state, result = scanner.scan(block, state)
        hits += len(result.hits)
    return hits


def _with_progress(path: Path, scanner: Scanner) -> int:
    state, read, steps = ScanState(), ReaderState(), 0
    reader = ProgressReader(finders=scanner.finder_of)
    for block in _blocks(path):
        log = LogText(block.data)
        state, _ = scanner.scan(block, state, log)
        read, marks = reader.read(block, read, log)
        steps += sum(isinstance(mark, StepSeen) for mark in marks)
    return steps


def _rg(made: Made) -> float:
    texts = made.part.with_suffix(".patterns")
    texts.write_text(
        "".join(f"(?i:{_plain(each)})\n" if each.ignore_case else f"{_plain(each)}\n" for each in _patterns(made.pack)),
        encoding="ascii",
    )
    command = ["rg", "--no-unicode", "--no-config", "-a", "-j1", "-c", "--dfa-size-limit=1G", "-f"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, str(texts), str(made.part)], check=False, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return made.part.stat().st_size / used_s / 1e9


def _plain(pattern: Pattern) -> str:
    """A pattern without names of groups, which ripgrep wants to be unique, in a syntax that both take."""
    return finder(pattern.text).text


def _wrong(made: Made) -> list[str]:
    """What was lost."""
    engine = HyperscanEngine(_patterns(made.pack))
    wrong = []
    for name, path, written in (("quiet log", made.quiet, made.written), ("storm", made.storm, made.stormy)):
        found = {block.offset + start for block in _blocks(path) for start, _, _ in engine.find(block.data)}
        if lost := len(written.signs - found):
            wrong.append(f"{name}: {lost} of {len(written.signs)} lines were lost")
    steps = _with_progress(made.quiet, made.scanner)
    if steps != made.written.steps:
        wrong.append(f"{steps} steps read of {made.written.steps}")
    return wrong


@contextmanager
def _one_core() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
