"""What came of one command, whichever way it was run."""

from __future__ import annotations

from dataclasses import dataclass

MAX_OUTPUT_BYTES = 256 << 20
"""More than the JSON of 20,000 jobs; an answer that is longer is given up."""
CONNECTION, TOKEN = "connection", "token"
"""What can be missing between us and Slurm; also the names of the health caps that this brings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What came of one command. `exit_code` None: it never ran, or was killed.

    Attributes:
        gave_up: Why it was killed, or its answer not waited for, in words; None: it ended by itself, or never ran.
        wall_s: Seconds from its start to its end.
        unreached: What was missing between us and Slurm: `CONNECTION`, `TOKEN`; empty: nothing that we know of.
        account: Name and uid of the account that it ran as, where the other side says so; None: as our own.
        lacks: Why nothing may be changed this way, in words with the remedy; empty: nothing speaks against it.
    """

    argv: tuple[str, ...]
    exit_code: int | None
    stdout: bytes
    stderr: str
    wall_s: float
    gave_up: str | None = None
    unreached: str = ""
    account: tuple[str, int] | None = None
    lacks: str = ""

    @property
    def may_have_acted(self) -> bool:
        """Whether a change that this command asks for may have been carried out: it is not known, so look."""
        return self.gave_up is not None

    @property
    def never_ran(self) -> bool:
        """Whether the command could not be started at all."""
        return self.exit_code is None and self.gave_up is None


def never_ran(argv: tuple[str, ...], why: str, *, wall_s: float = 0.0, unreached: str = "") -> Output:
    """The output of a command that was not started, and why."""
    return Output(argv=argv, exit_code=None, stdout=b"", stderr=why, wall_s=wall_s, unreached=unreached)
