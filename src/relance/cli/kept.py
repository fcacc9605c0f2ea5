"""The verb that prints what was kept of a job's logs."""

from __future__ import annotations

import click

from relance.cli.asking import Asking, asks
from relance.cli.failures import ExitCode, FailureError
from relance.recovery.kept_logs import KeptPiece


@click.command("tail")
@click.argument("job")
@click.option(
    "--attempt", type=click.IntRange(min=1), help="Which attempt, from 1; default: the newest of which any is."
)
@asks
def tail(ask: Asking, /, job: str, attempt: int | None) -> None:
    """Print the ends of the logs of JOB as they were kept when an attempt failed, at most 256 KiB of each file.

    A restart may have emptied the file itself. What looked like a secret is masked.
    """
    kept = ask.client.job_story(job).kept
    number = attempt or max((item.attempt.restart_count + 1 for item in kept), default=0)
    wanted = [item for item in kept if item.attempt.restart_count + 1 == number]
    if not wanted:
        which = f" of attempt {attempt}" if attempt else ""
        raise FailureError(f"nothing is kept of the logs{which} of job {job}", code=ExitCode.NOT_FOUND)
    if ask.screen.as_json:
        ask.screen.data([{"kept": item, "text": _text(ask, item)} for item in wanted])
        return
    for item in wanted:
        ask.screen.line(
            f"attempt {number}: {item.file}, {item.size_bytes} bytes from byte {item.start_offset}", "quiet"
        )
        for line in _text(ask, item).splitlines():
            ask.screen.line(line)


def _text(ask: Asking, item: KeptPiece) -> str:
    data = ask.client.kept_log(str(item.attempt.job), item.digest)
    return data.decode("utf-8", "backslashreplace")
