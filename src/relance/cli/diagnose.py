"""`relance diagnose`: what logs alone show, with the same rules and the same attribution as a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from stat import S_ISREG

import click

from relance.cli.failures import ExitCode, FailureError
from relance.cli.packs import engine_of, pack_of
from relance.cli.quotes import show_quote
from relance.cli.screens import Screen
from relance.domain.encoding import encode
from relance.domain.progress import Progress
from relance.domain.verdicts import Verdict
from relance.recovery import wordings
from relance.recovery.stories import Quote, quote_of
from relance.watching.evidence import CaseEvidence, Context, EvidenceFile

_CHUNK_BYTES = 1 << 20
_CONTEXT = "context.yaml"
_MOST_CONTEXT_BYTES = 1 << 20
_TOLD = 5


@click.command("diagnose")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--context",
    "context_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="YAML with `nodes` and `rank_to_node`; default: context.yaml of a folder that is named.",
)
@click.option(
    "--config", type=click.Path(path_type=Path), help="Settings whose own rules count too; default: $RELANCE_CONFIG."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def diagnose(*, paths: tuple[Path, ...], context_path: Path | None, config: Path | None, as_json: bool) -> None:
    """Say from logs alone what happened, whose fault it is, and what would help. Needs no server.

    PATH is a file or a folder of what one attempt left: logs of the job and of its ranks, kernel logs, the scheduler's
    logs and answers (sacct, sinfo, events of Kubernetes), samples of metrics, traces of collectives, notes. They are
    told apart by content and name: `dmesg-NODE.log` is that node's kernel log, `rank-3.log` a rank's.
    """
    from relance.attribution import faults_sentence, judge_runs
    from relance.ports.clocks import SystemClock
    from relance.rules import Scanner
    from relance.watching.evidence import Readers, gather
    from relance.watching.finished import cases_of, read_finished
    from relance.watching.hearing import reading_time

    pack = pack_of(config)
    given, skipped = _context(paths, context_path)
    files = _files(paths, skipped)
    now = reading_time((file.chunks for file in files), SystemClock().now())
    evidence = gather(files, given, Readers(expand=_expanded, pack=pack), now)
    if evidence.is_empty:
        raise FailureError("there is no log to read", _why_nothing(evidence), ExitCode.USAGE)
    context = evidence.context
    try:
        finished = read_finished(evidence.logs, context, pack, now, Scanner(pack, engine=engine_of()))
    except OSError as error:
        raise FailureError(f"cannot read {error.filename}: {error.strerror}", code=ExitCode.USAGE) from error
    verdict = judge_runs(cases_of(finished, context, now, evidence))
    screen, fault = Screen(as_json=as_json), faults_sentence(verdict)
    if as_json:
        screen.data(_report(verdict, fault, finished.progress, tuple(dict.fromkeys(log.name for log in evidence.logs))))
    else:
        _show(screen, verdict, fault, finished.progress)


def _show(screen: Screen, verdict: Verdict, fault: str, progress: Progress) -> None:
    screen.fact("whose fault", fault, "bad" if verdict.remedy.value == "stop" else "")
    screen.fact("what happened", verdict.summary)
    quote = _first_quote(verdict)
    if quote is not None:
        show_quote(screen, quote)
    screen.fact("decision", f"{wordings.name(verdict.remedy.value)}: {verdict.remedy_reason}", "busy")
    for suspect in verdict.suspects:
        screen.fact("suspect", f"{suspect.node} ({suspect.strength.value}): {suspect.reason}")
    screen.fact("confidence", f"{wordings.confidence(verdict.confidence)} ({verdict.confidence:.2f})")
    if progress.step is not None:
        screen.fact("last step", wordings.steps(progress.step))
    if verdict.runner_up is not None:
        screen.fact("next best", f"{wordings.name(verdict.runner_up.cause)}: {verdict.runner_up.reason}", "quiet")
    for gap in verdict.gaps:
        screen.fact("not seen", gap, "quiet")
    if progress.step is None and not verdict.evidence:
        screen.fact("not seen", "neither a step nor a fault was recognised in these logs: no proof of good health")


def _report(verdict: Verdict, fault: str, progress: Progress, logs: tuple[str, ...]) -> dict[str, object]:
    """The verdict for programs: the remedy is called the decision here, because nothing else will be asked."""
    quote = _first_quote(verdict)
    return {
        "domain": verdict.domain.value,
        "symptom": verdict.cause,
        "decision": verdict.remedy.value,
        "reason": verdict.remedy_reason,
        "suspects": [suspect.node for suspect in verdict.suspects],
        "confidence": verdict.confidence,
        "first_evidence": _place(quote) if quote else None,
        "fault": fault,
        "summary": verdict.summary,
        "suspicions": encode(verdict.suspects),
        "evidence": encode(verdict.evidence),
        "runner_up": encode(verdict.runner_up),
        "gaps": list(verdict.gaps),
        "fingerprint": verdict.fingerprint,
        "progress": encode(progress),
        "logs": list(logs),
    }


def _first_quote(verdict: Verdict) -> Quote | None:
    """The line where the cause first shows: attribution puts it in front."""
    return quote_of(verdict.evidence[0]) if verdict.evidence else None


def _place(quote: Quote) -> dict[str, object]:
    return {"file": quote.file, "line": quote.line, "node": quote.node, "rank": quote.rank, "text": quote.text}


def _files(paths: tuple[Path, ...], skipped: Path | None) -> list[EvidenceFile]:
    """The files that are meant. In one folder they are called by their path in it, else as they were named."""
    from relance.watching.evidence import EvidenceFile

    found: dict[str, EvidenceFile] = {}
    for path in paths:
        inside = _files_below(path) if path.is_dir() else [_plain(path)]
        for file in inside:
            if file == skipped or (path.is_dir() and file == path / _CONTEXT):
                continue
            name = str(file.relative_to(path)) if path.is_dir() and len(paths) == 1 else str(file)
            found[name] = EvidenceFile(name=name, chunks=_chunks_of(file))
    return list(found.values())


def _expanded(shown: str) -> tuple[str, ...]:
    """The names of Slurm's short list of nodes; none for what is no such list."""
    from relance.slurm.errors import SlurmError
    from relance.slurm.hostlists import expand

    try:
        return expand(shown)
    except SlurmError:
        return ()


def _why_nothing(evidence: CaseEvidence) -> str:
    """What became of the files that were there, if there were any."""
    told = [f"{item.source}: {item.note}" for item in (*evidence.coverage, *evidence.left_out)]
    rest = f"; and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    return "; ".join(told[:_TOLD]) + rest if told else "name a log, or a folder that holds some"


def _plain(path: Path) -> Path:
    """A file that is named itself, if it has an end: a device or a pipe may have none."""
    if path.exists() and not path.is_file():
        remedy = "copy what it gives into a file, and name that"
        raise FailureError(f"{path} is not a plain file", remedy, ExitCode.USAGE)
    return path


def _files_below(folder: Path) -> list[Path]:
    """The plain files of a folder and those below it, links and hidden ones left out."""
    return [
        file
        for file in sorted(folder.rglob("*"))
        if not any(part.startswith(".") for part in file.relative_to(folder).parts) and S_ISREG(file.lstat().st_mode)
    ]


def _chunks_of(file: Path) -> Callable[[], Iterable[bytes]]:
    def chunks() -> Iterator[bytes]:
        with file.open("rb") as handle:
            yield from iter(partial(handle.read, _CHUNK_BYTES), b"")

    return chunks


def _context(paths: tuple[Path, ...], named_path: Path | None) -> tuple[Context, Path | None]:
    """What is known beside the logs, and the file that says so."""
    import yaml

    from relance.watching.evidence import Context, ContextError, context_of

    beside = [path / _CONTEXT for path in paths if path.is_dir() and (path / _CONTEXT).is_file()]
    chosen = named_path or (beside[0] if len(beside) == 1 else None)
    if chosen is None:
        return Context(), None
    try:
        if chosen.stat().st_size > _MOST_CONTEXT_BYTES:
            raise FailureError(f"cannot use {chosen}: it is longer than 1 MiB", code=ExitCode.USAGE)
        return context_of(yaml.safe_load(chosen.read_text(encoding="utf-8"))), chosen
    except (OSError, ValueError, RecursionError, yaml.YAMLError, ContextError) as error:
        said = " ".join(str(error).split())
        raise FailureError(f"cannot use {chosen}: {said}", code=ExitCode.USAGE) from error
