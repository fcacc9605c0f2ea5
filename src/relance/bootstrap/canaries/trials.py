"""What a canary tries: the script of its jobs, the fault of each trial, and what Relance should make of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from relance.domain.faults import FaultDomain, Remedy

LAST_STEP: Final = 600
"""A job that nothing happens to ends after so many steps of a second."""
PROVEN_STEPS: Final = 12
"""A job that was started again goes on for so many steps beyond the old ones, and then ends."""
FAULT: Final = "fault"
"""The file by which a job is told to fail: the lines that it prints before it ends with 1."""
ENOUGH: Final = "enough"
"""The file by which a job is told to end well."""

# The steps have the shape of Megatron-LM's lines. A restart goes on from the newest checkpoint, as a training does.
SCRIPT: Final = """#!/bin/sh
# A job that counts steps like a training, saves every fifth, and fails or ends when a file beside it says so.
dir=$1
last=$2
step=0
[ ! -s "$dir/checkpoint" ] || step=$(cat "$dir/checkpoint")
fail_if_told() {
    [ -e "$dir/fault" ] || return 0
    mv "$dir/fault" "$dir/fault-shown"
    cat "$dir/fault-shown"
    exit 1
}
fail_if_told
while [ "$step" -lt "$last" ] && [ ! -e "$dir/enough" ]; do
    sleep 1
    step=$((step + 1))
    printf ' [%s] iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration (ms): 1000.0 | ' \\
        "$(date -u '+%Y-%m-%d %H:%M:%S')" "$step" "$last" "$step"
    printf 'learning rate: 1.000000E-04 | global batch size:     1 | lm loss: 2.500000E+00 | grad norm: 1.000 |\\n'
    if [ $((step % 5)) -eq 0 ]; then
        echo "$step" >"$dir/checkpoint.new" && mv "$dir/checkpoint.new" "$dir/checkpoint"
        printf '  successfully saved checkpoint from iteration %7d to %s/checkpoint\\n' "$step" "$dir"
    fi
    fail_if_told
done
"""

_ECC = "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
_BUG = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/canary/train.py", line 12, in <module>\n'
    "[rank0]:     import canary_tokens\n"
    "[rank0]: ModuleNotFoundError: No module named 'canary_tokens'\n"
)


class Ending(Enum):
    """How a trial's job comes to its end."""

    FAULT = "fault"
    """It prints lines and fails."""
    CANCEL = "cancel"
    """Its owner cancels it."""


class Hope(Enum):
    """What should come of it at the stage `act`."""

    AGAIN = "again"
    """It runs again, and goes on from its checkpoint."""
    LEFT = "left"
    """It stays as it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One job that fails in a chosen way.

    Attributes:
        name: What it is called.
        about: What is tried, in words.
        ending: How the job ends.
        hope: What should come of it at `act`.
        lines: What it prints before it fails.
        domains: Whose fault it may be called.
        remedies: What may be advised.
        at_once: It fails before its first step; else once it was seen to make some.
    """

    name: str
    about: str
    ending: Ending
    hope: Hope
    lines: str = ""
    domains: frozenset[FaultDomain] = frozenset()
    remedies: frozenset[Remedy] = frozenset()
    at_once: bool = False


NODE: Final = Trial(
    name="node", about="a GPU with a memory error ends the job: start it again without that node",
    ending=Ending.FAULT, hope=Hope.AGAIN, lines=_ECC, domains=frozenset({FaultDomain.HARDWARE}),
    remedies=frozenset({Remedy.RESTART_EXCLUDING, Remedy.RESTART}),
)  # fmt: skip
BUG: Final = Trial(
    name="bug", about="an error of the program ends the job at once: another try is no use", ending=Ending.FAULT,
    at_once=True, hope=Hope.LEFT, lines=_BUG, domains=frozenset({FaultDomain.APPLICATION, FaultDomain.USER}),
    remedies=frozenset({Remedy.STOP, Remedy.NONE}),
)  # fmt: skip
CANCEL: Final = Trial(
    name="cancel", about="its owner cancels the job: that is to be respected", ending=Ending.CANCEL, hope=Hope.LEFT
)
TRIALS: Final = (NODE, BUG, CANCEL)
