"""`relance diagnose`: what logs alone show, with the same rules and the same attribution as a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from stat import S_ISREG

import click

from relance.cli.failures import FailureError
from relance.cli.packs import pack_of
from relance.cli.screens import Screen
from relance.cli.stories import show_quote
from relance.domain.encoding import encode
from relance.domain.progress import Progress
from relance.domain.verdicts import Verdict
from relance.recovery import wordings
from relance.recovery.answers import first_quote
from relance.recovery.stories import Quote
from relance.watching.finished import Context, FinishedLog

_CHUNK_BYTES = 1 << 20
_SNIFF_BYTES = 4096
_CONTEXT = "context.yaml"
_NO_LOGS = frozenset({".yaml", ".yml", ".json", ".csv", ".gz", ".xz", ".zst", ".bz2", ".zip", ".tar", ".pt", ".py"})
"""Endings of files that are passed over in a folder; a file that is named itself is read whatever its ending."""


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

    PATH is a log or a folder of logs of one attempt. A name tells what a log is: `dmesg-NODE.log` is that node's kernel
    log, `slurmd-NODE.log` its daemon's, `rank-3.log` a rank's; anything else is output of the job.
    """
    from relance.attribution import faults_sentence, judge_runs
    from relance.ports.clocks import SystemClock
    from relance.watching.finished import cases_of, read_finished

    now = SystemClock().now()
    context = _context(paths, context_path)
    logs = _logs(paths)
    if not logs:
        raise FailureError("there is no log to read", "name a log, or a folder that holds some")
    try:
        finished = read_finished(logs, context, pack_of(config), now)
    except OSError as error:
        raise FailureError(f"cannot read {error.filename}: {error.strerror}") from error
    verdict = judge_runs(cases_of(finished, context, now))
    screen, fault = Screen(as_json=as_json), faults_sentence(verdict)
    if as_json:
        screen.data(_report(verdict, fault, finished.progress, tuple(log.name for log in logs)))
    else:
        _show(screen, verdict, fault, finished.progress)


def _show(screen: Screen, verdict: Verdict, fault: str, progress: Progress) -> None:
    screen.fact("whose fault", fault, "bad" if verdict.remedy.value == "stop" else "")
    screen.fact("what happened", verdict.summary)
    quote = first_quote(verdict)
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
    quote = first_quote(verdict)
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


def _place(quote: Quote) -> dict[str, object]:
    return {"file": quote.file, "line": quote.line, "node": quote.node, "rank": quote.rank, "text": quote.text}


def _logs(paths: tuple[Path, ...]) -> list[FinishedLog]:
    """The logs that are meant. In one folder they are called by their path in it, else as they were named."""
    from relance.watching.finished import named

    found: dict[str, FinishedLog] = {}
    for path in paths:
        inside = _files_below(path) if path.is_dir() else [_plain(path)]
        for file in inside:
            name = str(file.relative_to(path)) if path.is_dir() and len(paths) == 1 else str(file)
            found[name] = named(name, _chunks_of(file))
    return list(found.values())


def _plain(path: Path) -> Path:
    """A file that is named itself, if it has an end: a device or a pipe may have none."""
    if path.exists() and not path.is_file():
        raise FailureError(f"{path} is not a plain file", "copy what it gives into a file, and name that")
    return path


def _files_below(folder: Path) -> list[Path]:
    """The plain text files of a folder and those below it, links and hidden ones left out."""
    return [
        file
        for file in sorted(folder.rglob("*"))
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.suffix not in _NO_LOGS
        and S_ISREG(file.lstat().st_mode)
        and _is_text(file)
    ]


def _is_text(file: Path) -> bool:
    try:
        with file.open("rb") as handle:
            return b"\0" not in handle.read(_SNIFF_BYTES)
    except OSError:
        return True  # reading it says what is wrong


def _chunks_of(file: Path) -> Callable[[], Iterable[bytes]]:
    def chunks() -> Iterator[bytes]:
        with file.open("rb") as handle:
            yield from iter(partial(handle.read, _CHUNK_BYTES), b"")

    return chunks


def _context(paths: tuple[Path, ...], named_path: Path | None) -> Context:
    import yaml

    from relance.watching.finished import ContextError, context_of

    beside = [path / _CONTEXT for path in paths if path.is_dir() and (path / _CONTEXT).is_file()]
    chosen = named_path or (beside[0] if len(beside) == 1 else None)
    if chosen is None:
        return Context()
    try:
        data = yaml.safe_load(chosen.read_text(encoding="utf-8"))
        return context_of(data if isinstance(data, Mapping) else {})
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ContextError) as error:
        raise FailureError(f"cannot use {chosen}: {error}") from error
