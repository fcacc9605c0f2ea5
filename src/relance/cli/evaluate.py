"""`relance evaluate`: how often the answers on labelled cases are right, and how costly the wrong ones are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relance.cli.failures import ExitCode, FailureError
from relance.cli.screens import Screen

if TYPE_CHECKING:
    from relance.cli.evaluating import Evaluation


@click.command("evaluate")
@click.argument(
    "folders",
    metavar="FOLDER...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@click.option(
    "--config", type=click.Path(path_type=Path), help="Settings whose own rules count too; default: $RELANCE_CONFIG."
)
@click.option(
    "--folds",
    type=click.IntRange(2, 100),
    default=5,
    show_default=True,
    help="In how many parts the confidences are held against each other.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def evaluate(*, folders: tuple[Path, ...], config: Path | None, folds: int, as_json: bool) -> None:
    """Diagnose labelled cases and say how often the answers are right.

    A case is a folder with `expected.yaml` beside its evidence; every case in FOLDER and below it counts. Needs no
    server.

    Exit code 1 when a case cannot be read, 2 when there is none. Wrong answers are no error: they are listed.
    """
    from relance.cli import evaluation_reports as reports

    screen, found = Screen(as_json=as_json), _evaluated(folders, config)
    if as_json:
        screen.data(reports.report_of(found, folds))
    else:
        reports.show(screen, found, folds)
    if any(each.unreadable for each in found.values()):
        raise click.exceptions.Exit(int(ExitCode.ERROR))


def _evaluated(folders: tuple[Path, ...], config: Path | None) -> Mapping[str, Evaluation]:
    """The evaluation of each folder, by its name as it was given."""
    from relance.cli.diagnosing import means_of
    from relance.cli.evaluating import evaluation_of, found_below
    from relance.ports.clocks import SystemClock

    below = found_below(folders)
    total = sum(len(cases) for cases in below.values())
    if not total:
        raise FailureError(
            "there is no labelled case", "a case is a folder with expected.yaml beside its evidence", ExitCode.USAGE
        )
    means, now = means_of(config), SystemClock().now()
    with _counting(total) as told:
        return {str(folder): evaluation_of(folder, cases, means, now, told) for folder, cases in below.items()}


@contextmanager
def _counting(total: int) -> Iterator[Callable[[str], None]]:
    """What tells on standard error how far it is, where somebody may be looking."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=total, label="cases", file=sys.stderr) as bar:
        yield lambda _: bar.update(1)
