"""What can go wrong between a question to Slurm and its answer. None of them means "there is no such thing"."""

from __future__ import annotations


class SlurmError(Exception):
    """Base of all errors of this package; `text` is what the command said, or a piece of what could not be read."""

    def __init__(self, message: str, *, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class UnreadableError(SlurmError):
    """The output is not what this command prints: cut off, mangled, or of a release that is not known."""


class UnknownJobError(SlurmError):
    """Slurm answered that it knows no such job (any more): the one answer that means "not there"."""


class RefusedError(SlurmError):
    """Slurm answered and refused: a right, a state or an argument. Nothing was changed."""


class SilentError(SlurmError):
    """Slurm did not answer: nothing is known, neither what there is nor whether a change was carried out."""


class UnreachedError(SilentError):
    """Slurm was not asked, or its answer did not come back, as something between us and Slurm is missing.

    `way` names it: `relance.slurm.outputs.CONNECTION` or `TOKEN`.
    """

    def __init__(self, message: str, *, way: str, text: str = "") -> None:
        super().__init__(message, text=text)
        self.way = way


class BadArgumentError(SlurmError):
    """A value is not fit to enter a command, such as a job id with a space. Nothing was run."""
