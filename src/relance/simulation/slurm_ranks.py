"""A rank of a training under `srun`: `srun python -m relance.simulation.slurm_ranks --places DIR TRAINER-OPTIONS`.

It translates the place that Slurm gives it into torchrun's names, notes its process id, and becomes the trainer. `DIR`
has a folder `nodes` with one folder for each node, and a folder `ranks`, in which rank 3 of the second attempt of job
17 is the file `17.1.3`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from relance.simulation import trainer


def torchrun_names(environ: Mapping[str, str], places: Path) -> dict[str, str]:
    """What a rank finds in its environment under torchrun, and the place of its node, from what Slurm says."""
    return {
        "RANK": environ["SLURM_PROCID"],
        "WORLD_SIZE": environ["SLURM_NTASKS"],
        "LOCAL_RANK": environ["SLURM_LOCALID"],
        "NODE_RANK": environ["SLURM_NODEID"],
        "NODE_NAME": environ["SLURMD_NODENAME"],
        "NODE_DIR": str(places / "nodes" / environ["SLURMD_NODENAME"]),
        "JOB_ID": environ["SLURM_JOB_ID"],
        "RESTART_COUNT": environ.get("SLURM_RESTART_COUNT", "0"),
    }


def rank_file(places: Path, job_id: int, restart_count: int, rank: int) -> Path:
    """Where a rank notes its process id."""
    return places / "ranks" / f"{job_id}.{restart_count}.{rank}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="slurm_ranks")
    parser.add_argument("--places", type=Path, required=True)
    options, rest = parser.parse_known_args(arguments)
    os.environ.update(torchrun_names(os.environ, options.places))
    mine = rank_file(
        options.places,
        int(os.environ["JOB_ID"]),
        int(os.environ["RESTART_COUNT"]),
        int(os.environ["RANK"]),
    )
    mine.write_text(str(os.getpid()), encoding="ascii")
    return trainer.main(rest)


if __name__ == "__main__":
    sys.exit(main())
