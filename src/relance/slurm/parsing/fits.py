"""What `sbatch --test-only` answers: whether and when such a job would start."""

from __future__ import annotations

import re
from dataclasses import dataclass

from relance.slurm.errors import RefusedError
from relance.slurm.hostlists import expand
from relance.slurm.parsing import values
from relance.slurm.parsing.replies import checked
from relance.slurm.running import Output

_START = re.compile(
    r"^sbatch: Job \d+ to start at (\S+)(?: a)? using \d+ processors on (?:nodes )?(\S+) in partition (\S+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """slurmctld's answer. `starts_at` None: it would not start as asked, and `refusal` is Slurm's word why."""

    starts_at: int | None
    nodes: tuple[str, ...] = ()
    refusal: str | None = None


def parse_fit(output: Output) -> Fit:
    """The answer, which stands on standard error.

    Raises:
        SilentError: No answer from slurmctld.
        UnreadableError: It was accepted, in words that are not known.
    """
    try:
        checked(output)
    except RefusedError as refused:
        return Fit(starts_at=None, refusal=refused.text)
    match = _START.search(output.stderr)
    if match is None:
        raise values.unreadable("the answer of sbatch --test-only", output.stderr)
    return Fit(starts_at=values.shown_moment(match[1], "an expected start"), nodes=expand(match[2]))
