"""`relance slurm-script`: the script by which a cluster is reached by SSH."""

from __future__ import annotations

import click

from relance.cli.failures import FailureError
from relance.slurm.scripts import PYTHON, script_text


@click.command("slurm-script")
@click.option("--python", default=PYTHON, show_default=True, help="The interpreter there, Python 3.6 or newer.")
@click.option("--bin-dir", default="", help="The folder of Slurm's commands there; default: the usual places.")
@click.option("--conf", default="", help="The cluster's slurm.conf there; default: where Slurm looks by itself.")
@click.option("--read-only", is_flag=True, help="Let it refuse whatever changes anything: enough for observe.")
def slurm_script(python: str, bin_dir: str, conf: str, read_only: bool) -> None:  # noqa: FBT001 - an option
    """Print the script by which a cluster is reached by SSH, for its login or control node.

    \b
      relance slurm-script > relance-slurm
      scp relance-slurm alpha: && ssh alpha sudo install -m 755 relance-slurm /usr/local/bin/

    It runs the few commands that Relance builds, checked word by word, and nothing else. Make it all that Relance's key
    may do there, by one line of ~/.ssh/authorized_keys of Relance's account:

    \b
      restrict,command="/usr/local/bin/relance-slurm" ssh-ed25519 AAAA... relance

    Install it anew after each update of Relance; `relance check cluster` says when that is due.
    """  # noqa: D301 - that is how click is told to leave lines as they are
    for name, path in (("--python", python), ("--bin-dir", bin_dir), ("--conf", conf)):
        if path and (not path.startswith("/") or not path.isprintable()):
            raise FailureError(f"{name} {path!r} is not an absolute path", "give the path on that node")
    click.echo(script_text(python=python, bin_dir=bin_dir, slurm_conf=conf, read_only=read_only), nl=False)
