"""`relance canary`: small jobs that fail on purpose, to prove on one's own cluster what Relance makes of them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from relance.cli.asking import Asking, Duration, asks
from relance.cli.clusters import one_cluster
from relance.cli.failures import ExitCode, FailureError
from relance.cli.signal_checks import reasons, show_rows

if TYPE_CHECKING:
    from relance.bootstrap.canaries.procedures import CanaryReport

_MOST_S = 6 * 3600.0


class _Asked(TypedDict):
    """Where the canary's jobs run, and what is tried."""

    partition: str
    folder: Path
    nodes: int
    timeout: float
    keep: bool
    acts: bool
    stop_controller: str
    start_controller: str


@click.command("canary")
@click.option("--partition", metavar="NAME", default="", help="Where its jobs run; default: the scheduler's own.")
@click.option("--act", "acts", is_flag=True, help="Let Relance act on the canary's jobs, at act in the partition.")
@click.option("--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".",
              help="A folder that nodes and watcher see; default: this one.")  # fmt: skip
@click.option("--nodes", type=click.IntRange(1, 64), default=1, show_default=True, help="Nodes of each job.")
@click.option("--timeout", type=Duration(), default="5m", show_default=True, help="How long each thing is waited for.")
@click.option("--stop-controller", metavar="COMMAND", default="",
              help="Stops the controller ('systemctl stop relance-controller'): tries the watchdog.")  # fmt: skip
@click.option("--start-controller", metavar="COMMAND", default="", help="Starts it again.")
@click.option("--keep", is_flag=True, help="Keep what its jobs wrote.")
@click.option("--cluster", "name", metavar="NAME", help="A cluster of the settings; may be left out if there is one.")
@click.option("--config", type=click.Path(path_type=Path), help="The settings (YAML); default: $RELANCE_CONFIG.")
@asks
def canary(ask: Asking, /, *, name: str | None, config: Path | None, **asked: Unpack[_Asked]) -> None:
    """Submit small jobs that fail on purpose, and see what Relance makes of each.

    Three jobs of one node each count steps like a training. One ends by a GPU's memory error, one by an error of its
    program, one is cancelled. Each has to be seen, judged rightly, and left alone as long as Relance only observes.

    With --act the first has to run again without its node, from its checkpoint, and the others must not. Then the
    partition is set back to observe, and a last job has to be left alone. With --stop-controller one more fails while
    the controller is stopped: the watchdog has to save it, shortly before the scheduler would forget it.

    Run it as a user who may submit jobs, on a partition that nobody needs meanwhile. Its jobs are small, have a time
    limit of 15 minutes, and are cancelled when it ends; no other job is touched.

    Exit code 0: all of it is as it should be. 5: something is not, and its row says what helps.
    """
    if asked["timeout"] > _MOST_S:
        raise click.UsageError("--timeout is 6h at most")
    if bool(asked["stop_controller"]) != bool(asked["start_controller"]):
        raise click.UsageError("--stop-controller and --start-controller go together")
    if asked["acts"] and not asked["partition"]:
        raise click.UsageError("--act needs --partition: that one is set back to observe when the canary ends")
    if asked["stop_controller"] and not asked["acts"]:
        raise click.UsageError("the watchdog only saves jobs at act: add --act")
    report = _run(ask, name, config, asked)
    if ask.screen.as_json:
        ask.screen.data({
            "fit": report.fit, "cluster": report.cluster, "partition": report.partition, "stage": report.stage,
            "rows": report.rows,
        })  # fmt: skip
    else:
        ask.screen.line()
        show_rows(ask.screen, report.rows)
        ask.screen.fact("canary", "all as it should be" if report.fit else "not as it should be",
                        "good" if report.fit else "bad")  # fmt: skip
    if not report.fit:
        sentence = f"the canary on {report.cluster} found something: {reasons(report.rows)}"
        raise FailureError(sentence, code=ExitCode.REFUSED)


def _run(ask: Asking, name: str | None, config: Path | None, asked: _Asked) -> CanaryReport:
    from relance.bootstrap.canaries.opening import Place, canary
    from relance.bootstrap.canaries.procedures import Plan
    from relance.config import SettingError, load_settings

    plan = Plan(
        acts=asked["acts"],
        stop_controller=_words(asked["stop_controller"]),
        start_controller=_words(asked["start_controller"]),
    )
    place = Place(
        partition=asked["partition"], folder=asked["folder"], nodes=asked["nodes"], patience_s=asked["timeout"],
        keep=asked["keep"],
    )  # fmt: skip
    ask.client.me()  # a server that does not answer, or knows us not, is said before any job is submitted
    try:
        cluster = one_cluster(load_settings(config), name)
        return canary(cluster, ask.client, place, plan, lambda text: click.echo(text, file=sys.stderr))
    except SettingError as error:
        raise FailureError(str(error)) from error


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        message = f"not a command: {command!r}: {error}"
        raise click.UsageError(message) from error
