"""The script `relance-slurm` as a file for another host: its text, and the mark of what it allows."""

from __future__ import annotations

import json
from pathlib import Path

from relance.slurm import script

DIGEST = script.DIGEST
PROTOCOL = script.PROTOCOL
PYTHON = "/usr/bin/python3"


def script_text(*, python: str = PYTHON, bin_dir: str = "", slurm_conf: str = "", read_only: bool = False) -> str:
    """The script with what is chosen at its side written into it.

    `python` is the interpreter there, `bin_dir` the folder of Slurm's commands and `slurm_conf` the cluster's file
    there (empty: found by themselves); with `read_only` it refuses whatever changes anything.
    """
    text = Path(script.__file__).read_text(encoding="utf-8")
    for name, value in (("BIN_DIR", bin_dir.rstrip("/")), ("SLURM_CONF", slurm_conf)):
        text = text.replace(f'\n{name} = ""', f"\n{name} = {json.dumps(value)}", 1)
    text = text.replace("\nREAD_ONLY = False", f"\nREAD_ONLY = {read_only}", 1)
    lines = (line for line in text.splitlines() if not line.startswith("# ruff:"))
    return "\n".join((f"#!{python} -IS", *lines, ""))
