"""`relance diagnose`: what logs alone show, with the same rules and the same attribution as a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from relance.cli.failures import ExitCode, FailureError
from relance.cli.screens import Screen

if TYPE_CHECKING:
    from relance.cli.diagnosing import Diagnosis


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

    Exit code 0 whenever there is an answer, be it "unknown"; 2 when there is nothing that could be read.
    """
    from relance.cli.diagnosis_pages import show
    from relance.cli.diagnosis_reports import report_of

    found, screen = _diagnosed(paths, context_path, config), Screen(as_json=as_json)
    if as_json:
        screen.data(report_of(found))
    else:
        show(screen, found)


def _diagnosed(paths: tuple[Path, ...], context_path: Path | None, config: Path | None) -> Diagnosis:
    from relance.cli.diagnosing import NothingToReadError, diagnosis_of, means_of
    from relance.cli.evidence_files import context_beside, files_of
    from relance.ports.clocks import SystemClock

    given, skipped = context_beside(paths, context_path)
    files = files_of(paths, frozenset((skipped,) if skipped else ()))
    try:
        return diagnosis_of(files, given, means_of(config), SystemClock().now())
    except NothingToReadError as error:
        remedy = str(error) or "name a log, or a folder that holds some"
        raise FailureError("there is no log to read", remedy, ExitCode.USAGE) from error
    except OSError as error:
        raise FailureError(f"cannot read {error.filename}: {error.strerror}", code=ExitCode.USAGE) from error
