"""`relance demo`: breaks real training runs in six ways and shows what becomes of them."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import click

_GOOD, _WRONG, _INTERRUPTED = 0, 1, 130
_NAMES = ("kill", "hang", "node", "bug", "scare", "slow")


@click.command("demo")
@click.option("--fault", "names", type=click.Choice(_NAMES), multiple=True, help="Only this one; may be repeated.")
@click.option("--headless", is_flag=True, help="Line by line, without the live display.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object at the end; progress goes to standard error.")
@click.option("--keep-running", is_flag=True, help="Leave everything up at the end, until Ctrl-C.")
@click.option("--apart", is_flag=True, help="Server, watcher and controller as three processes, not `relance up`.")
@click.option("--at-once", is_flag=True, help="Break all jobs together instead of one after another.")
@click.option("--slurm", is_flag=True, help="On a private Slurm cluster that it starts and removes; needs root.")
@click.option("--picture", type=click.Path(path_type=Path), help="Write the final screen to this file, as SVG.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where everything goes; default: a temporary folder.")
def demo(*, names: tuple[str, ...], picture: Path | None, folder: Path | None, **flags: bool) -> None:
    """Train a small model on simulated nodes, break it in six ways, and watch it come back.

    With --slurm the nodes are those of a real Slurm cluster, made for this and removed afterwards.

    Everything runs on this machine, in a temporary folder, and ends by itself in under three minutes. Exits with 0 when
    every fault came out as it should, with 1 when one did not.
    """
    from relance.cli.demos.faults import faults
    from relance.cli.demos.performances import Telling, perform
    from relance.cli.demos.plays import Plan, PlayFailedError
    from relance.cli.demos.settings import HANG_AFTER_S

    chosen = tuple(each for each in faults(HANG_AFTER_S) if not names or each.name.value in names)
    telling = Telling(
        is_live=not flags["headless"] and not flags["as_json"] and sys.stdout.isatty(),
        as_json=flags["as_json"],
        keep_running=flags["keep_running"],
        picture=picture,
    )
    with _interrupted_by_term(), _folder(folder) as (place, keep):
        try:
            plan = Plan(
                faults=chosen, folder=place, apart=flags["apart"], at_once=flags["at_once"], on_slurm=flags["slurm"]
            )
            is_good = perform(plan, telling, time.sleep)
        except PlayFailedError as error:
            keep()
            click.echo(f"relance demo: {error}\nlogs: {place}", err=True)
            sys.exit(_WRONG)
        except KeyboardInterrupt:
            click.echo("interrupted; everything has been ended", err=True)
            sys.exit(_INTERRUPTED)
        if not is_good:
            keep()
    sys.exit(_GOOD if is_good else _WRONG)


@contextlib.contextmanager
def _folder(given: Path | None) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A folder for everything, and a way to say that it is to be kept."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.resolve(), lambda: None
        return
    place = Path(tempfile.mkdtemp(prefix="relance-demo-")).resolve()
    kept: list[bool] = []
    try:
        yield place, lambda: kept.append(True)
    finally:
        if not kept:
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _interrupted_by_term() -> Iterator[None]:
    """Take TERM as Ctrl-C, so that nothing is left behind."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
