"""Telling answers apart: done, "no such job", refused, and no answer at all."""

from __future__ import annotations

from relance.slurm.errors import RefusedError, SilentError, UnknownJobError, UnreachedError
from relance.slurm.outputs import Output

_UNKNOWN_JOB = ("invalid job id specified",)
_SILENT = (
    "authentication error",
    "authentication failure",
    "communication connection failure",
    "communication shutdown failure",
    "connect failure",
    "connection refused",
    "could not establish a configuration source",
    "failed to open persistent connection",
    "header lengths are longer than data received",
    "incompatible versions of client and server code",
    "invalid authentication credential",
    "munge encode failed",
    "problem talking to the database",
    "receive failure",
    "send failure",
    "slurm backup controller in standby mode",
    "slurm temporarily unable to accept job",
    "slurmctld is in the process of",
    "socket timed out",
    "unable to contact slurm controller",
    "unable to establish controller machine",
    "unexpected message received",
    "zero bytes were transmitted or received",
)
"""Slurm's words when slurmctld or slurmdbd did not take part: nothing is known then."""

_DOWN = " is down"
"""How `scontrol ping` ends its line on a slurmctld that does not answer."""
_COMMANDS = frozenset({"sacct", "sbatch", "scancel", "scontrol", "squeue"})


def checked(output: Output) -> bytes:
    """The answer of a command that was carried out.

    Raises:
        UnknownJobError: Slurm knows no such job (any more).
        RefusedError: Slurm refused; nothing was changed.
        SilentError: No answer. `output.may_have_acted` says whether a change may have been carried out; it may as
            well where Slurm's own words are that it waited in vain. UnreachedError where what is between us and Slurm
            is missing.
    """
    said = output.stderr.strip()
    name = _name(output.argv)
    if output.unreached:
        lost = f"{name}: {output.gave_up}. " if output.gave_up is not None else ""
        raise UnreachedError(f"{lost}{said}".strip(), way=output.unreached, text=said)
    if output.never_ran:
        raise SilentError(said, text=said)
    if output.gave_up is not None:
        raise SilentError(f"{name}: {output.gave_up}; it was stopped.", text=said)
    words = said.lower()
    if any(each in words for each in _SILENT):
        raise SilentError(f"{name}: no answer from Slurm: {said[:500]}", text=said)
    if output.exit_code == 0:
        return output.stdout
    if output.exit_code is not None and output.exit_code < 0:
        raise SilentError(f"{name} was ended by signal {-output.exit_code}.", text=said)
    if not said:  # `scontrol ping` and `scontrol show reservation NAME` complain on standard output
        said = output.stdout[:500].decode("utf-8", "replace").strip()
        words = said.lower()
        if _DOWN in words:
            raise SilentError(f"{name}: no answer from Slurm: {said}", text=said)
    if any(each in words for each in _UNKNOWN_JOB):
        raise UnknownJobError(f"Slurm knows no such job: {said[:500]}", text=said)
    raise RefusedError(f"{name} was refused: {said[:500] or f'exit code {output.exit_code}'}", text=said)


def _name(argv: tuple[str, ...]) -> str:
    """Slurm's command among the arguments, which may stand behind a prefix."""
    names = [each.rpartition("/")[2] for each in argv]
    return next((name for name in names if name in _COMMANDS), names[0])
