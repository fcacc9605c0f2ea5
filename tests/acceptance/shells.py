"""Sound trainings that look like something else for a while, as shell scripts that print the lines of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PREAMBLE: Final = r"""#!/bin/sh
say() {
    printf ' [%s] iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration (ms): 500.0 | ' \
        "$(date '+%F %T.%6N')" "$1" 30 $((8 * $1))
    printf 'learning rate: 1.0E-04 | global batch size:     8 | lm loss: 2.5E+00 | loss scale: 1.0 | grad norm: 1.0 | '
    printf 'number of skipped iterations:   0 | number of nan iterations:   0 |\n'
    sleep 0.5
}
steps() { n=$1; while [ "$n" -le "$2" ]; do say "$n"; n=$((n + 1)); done; }
each_second() { n=0; while [ $n -lt "$1" ]; do date >>"$2"; n=$((n + 1)); sleep 1; done; }
"""
_EVALUATION: Final = """steps 1 12
echo 'Evaluating iter 1/100'
sleep {silence}
echo ' validation loss at iteration 12 | lm loss value: 2.0E+00 | lm loss PPL: 7.4E+00 | '
steps 13 30
"""
_UNSAID_EVALUATION: Final = """steps 1 12
sleep {silence}
steps 13 30
"""
_FAILING_SAVES: Final = """steps 1 10
for try in 1 2 3; do
    echo '[rank0]: Traceback (most recent call last):'
    echo '[rank0]:   File "/opt/train/save.py", line 71, in save'
    echo '[rank0]: OSError: [Errno 5] Input/output error: checkpoint shard 3'
    echo 'WARNING: saving the checkpoint failed, trying again in 3 s'
    sleep 3
done
steps 11 30
"""
_NOISE: Final = """{python} -I -S -c '
import sys, time
lines = "node:1:2 [0] NCCL TRACE ring 0 chunk 17 send 0x7f9a\\n" * 20000
end = time.monotonic() + {silence}
while time.monotonic() < end:
    sys.stdout.write(lines)
    sys.stdout.flush()
    time.sleep(0.3)
' &
steps 1 30
wait
"""
_RETRIES: Final = """steps 1 10
until [ -e done-$SLURM_JOB_ID ]; do
    srun --ntasks=1 sh -c 'echo RuntimeError: could not rendezvous; kill -9 $$'
    touch done-$SLURM_JOB_ID
    sleep {silence}
done
steps 11 30
"""
_EXPORT: Final = """steps 1 30
each_second {silence} export-$SLURM_JOB_ID
"""
_SILENT_SAVE: Final = """mkdir -p {folder}
steps 1 10
echo ' successfully saved checkpoint from iteration 10 to {folder} [ t 1/1, p 1/1 ]'
steps 11 20
each_second {silence} {folder}/shard
echo ' successfully saved checkpoint from iteration 20 to {folder} [ t 1/1, p 1/1 ]'
steps 21 30
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """How long things last, in seconds: what a job's own wish calls a hang, and the silences of sound trainings.

    A save without a word is among them where the silences are so long that the folder, which is looked at twice a
    minute, is seen to grow before they count as a hang.
    """

    hang_s: int
    silence_s: int
    unsaid_save: bool = False

    @property
    def wish(self) -> str:
        """The comment that calls a silence a hang."""
        return f"relance:act,hang={self.hang_s}"


def scripts(quiet: Quiet, folder: Path, python: str) -> Mapping[str, tuple[str, str]]:
    """The scripts by name, each with its job's comment. `folder` is for a checkpoint, `python` any Python."""
    found = {
        "evaluation": (_EVALUATION, quiet.wish),
        "unsaid-evaluation": (_UNSAID_EVALUATION, ""),
        "failing-saves": (_FAILING_SAVES, ""),
        "noise": (_NOISE, ""),
        "retries": (_RETRIES, ""),
        "export": (_EXPORT, quiet.wish),
        **({"silent-save": (_SILENT_SAVE, quiet.wish)} if quiet.unsaid_save else {}),
    }
    places = {"silence": quiet.silence_s, "folder": folder, "python": python}
    return {
        name: (PREAMBLE + _filled(body, places), comment) for name, (body, comment) in found.items()
    }  # fmt: skip


def _filled(body: str, places: Mapping[str, object]) -> str:
    for name, value in places.items():
        body = body.replace(f"{{{name}}}", str(value))
    return body
