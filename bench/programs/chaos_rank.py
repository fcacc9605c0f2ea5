"""A rank that keeps a book of its own: `chaos_rank.py --book DIR --places DIR TRAINER-OPTIONS`, run by `srun`.

The book is `DIR/rank-N.log`, over all attempts: a line when an attempt of the rank begins, and the trainer's own line
for each step that it has finished. It is written to the file itself, not through srun, so that nothing of it is lost.
A lock says whether an earlier attempt of the same rank still lives: then there are two writers, which is noted.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from pathlib import Path

from relance.simulation import slurm_ranks


def main() -> int:
    """Note the beginning, and become the rank."""
    parser = argparse.ArgumentParser(prog="chaos_rank")
    parser.add_argument("--book", type=Path, required=True)
    options, rest = parser.parse_known_args()
    options.book.mkdir(parents=True, exist_ok=True)
    rank, count = os.environ["SLURM_PROCID"], os.environ.get("SLURM_RESTART_COUNT", "0")
    # Held for as long as this process lives, and not handed on to another.
    descriptor = os.open(options.book / f"rank-{rank}.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        what = "begins"
    except BlockingIOError:
        what = "finds another writer"
    with (options.book / f"rank-{rank}.log").open("a", encoding="ascii") as book:
        book.write(f"attempt {count} {what}\n")
    return slurm_ranks.main([*rest, "--print-rank-files", str(options.book)])


if __name__ == "__main__":
    sys.exit(main())
