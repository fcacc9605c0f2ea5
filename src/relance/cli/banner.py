"""The verb `banner`, for its help; the work is done in `relance.cli.prolog`, which loads in milliseconds."""

from __future__ import annotations

import sys

import click

from relance.cli import prolog


@click.command("banner")
@click.option(
    "--time-limit",
    default=prolog.LIMIT_S,
    show_default=True,
    help="Seconds after which it ends, whatever it waits for.",
)
def banner(time_limit: float) -> None:
    """Print why a job was restarted, at the top of its output: for the site's TaskProlog.

    Prints `print ...` lines for the first task of each step of a restarted job, and nothing otherwise. Ends with 0
    whatever happens. Finds the server by $RELANCE_SERVER or /etc/relance/server, and proves the uid by munge.
    """
    sys.exit(prolog.main(["--time-limit", str(time_limit)]))
