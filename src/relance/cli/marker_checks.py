"""`relance check marker`: a line sent through the site's own path, from a job to each source of logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from relance.cli.asking import Duration
from relance.cli.clusters import one_cluster
from relance.cli.failures import ExitCode, FailureError
from relance.cli.screens import Screen
from relance.cli.signal_checks import reasons, show_rows

if TYPE_CHECKING:
    from relance.bootstrap.proofs.markers import MarkerCheck

_MOST_S = 6 * 3600.0


class _Asked(TypedDict):
    """How the marker's job is submitted, and how long its line is waited for, in seconds."""

    timeout: float
    partition: str
    output: str


@click.command("marker")
@click.option("--timeout", type=Duration(), default="5m", show_default=True,
              help="How long to wait for the job and its line.")  # fmt: skip
@click.option("--partition", metavar="NAME", default="", help="Where the job runs; default: the scheduler's own.")
@click.option("--output", metavar="PATH", default="",
              help="Where it writes, an absolute path (%j: its id); default: in this folder.")  # fmt: skip
@click.option("--cluster", "name", metavar="NAME", help="A cluster of the settings; may be left out if there is one.")
@click.option("--config", type=click.Path(path_type=Path), help="The settings (YAML); default: $RELANCE_CONFIG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def check_marker(*, name: str | None, config: Path | None, as_json: bool, **asked: Unpack[_Asked]) -> None:
    """Send a line through the site's own path, and see where it comes out, and how late.

    A job of one task is submitted that prints one line and ends within a second. Each source of logs in the settings
    is asked until it has the line. If the job does not start in time it is cancelled; no other job is touched.

    Run it as a user who may submit jobs and may ask the stores. It needs no server.

    Exit code 0: every source has the line as it should. 5: one has not, and its row says what mends it.
    """
    if asked["timeout"] > _MOST_S:
        raise click.UsageError("--timeout is 6h at most")
    screen = Screen(as_json=as_json)
    found = _found(name, config, asked)
    if as_json:
        screen.data({
            "fit": found.fit, "cluster": found.cluster, "mark": found.mark, "job": found.raw_id, "rows": found.rows,
        })  # fmt: skip
    else:
        screen.line(f"{found.cluster}, marker {found.mark}")
        show_rows(screen, found.rows)
        screen.fact("marker", "came through" if found.fit else "did not come through", "good" if found.fit else "bad")
    if not found.fit:
        sentence = f"the marker did not come through {found.cluster}: {reasons(found.rows)}"
        raise FailureError(sentence, code=ExitCode.REFUSED)


def _found(name: str | None, config: Path | None, asked: _Asked) -> MarkerCheck:
    from relance.bootstrap.proofs.opening import run_marker
    from relance.config import SettingError, load_settings

    try:
        cluster = one_cluster(load_settings(config), name)
        return run_marker(cluster, asked["timeout"], partition=asked["partition"], output=asked["output"])
    except SettingError as error:
        raise FailureError(str(error)) from error
