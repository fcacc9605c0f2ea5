"""Defects of Slurm's releases that bear on restarts, by the patch level that mends each. Pure.

From SchedMD's own list of changes (CHANGELOG of Slurm 26.05.3). What Relance works around for whole kinds of jobs is
not here: see `kinds` for licences.
"""

from __future__ import annotations

from dataclasses import dataclass

Release = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """What goes wrong, and the first release without it, or one of each line of releases that was mended.

    `since` is the first release that has it; older ones lack what it is a defect of.
    """

    what: str
    mended: tuple[Release, ...]
    since: Release = (0, 0, 0)

    @property
    def mended_in(self) -> str:
        """For people: `24.11.6 and 25.05.0`."""
        return " and ".join(shown(release) for release in self.mended)

    def is_in(self, release: Release) -> bool:
        """Whether a release has it: older than what mends its own line, or than all lines that were mended."""
        of_line = [each for each in self.mended if each[:2] == release[:2]]
        return self.since <= release < (of_line[0] if of_line else self.mended[0])


DEFECTS = (
    Defect(what="slurmctld may stop at a failed assertion when tasks of an array are requeued", mended=((23, 2, 0),)),
    Defect(what="a requeued job may keep devices that it does not have, and these leak", mended=((23, 2, 2),)),
    Defect(what="accounting shows the old number of nodes of a requeued job while it waits", mended=((23, 2, 5),)),
    Defect(
        what="a requeued job keeps its old priority until the next decay",
        mended=((24, 5, 5), (24, 11, 0)),
    ),
    Defect(
        what="slurmctld may crash when many jobs are requeued under heavy load",
        mended=((24, 11, 6), (25, 5, 0)),
    ),
    Defect(
        what="the usage of a job that is requeued as it completes is taken off twice, and accounting shows requeued "
        "jobs as runaway",
        mended=((25, 11, 3),),
    ),
    Defect(
        what="a job submitted with --requeue=expedite may be started again although it ended well, or before its "
        "epilog has",
        mended=((25, 11, 3),),
        since=(25, 11, 0),
    ),
    Defect(
        what="a job whose PrologSlurmctld fails is requeued twice, with records too many in accounting",
        mended=((25, 11, 5),),
    ),
)
"""The oldest first."""


def known_defects(release: Release) -> tuple[Defect, ...]:
    """The defects that a release has."""
    return tuple(each for each in DEFECTS if each.is_in(release))


def shown(release: Release) -> str:
    """A release as Slurm writes it: 25.05.0."""
    year, month, patch = release
    return f"{year}.{month:02}.{patch}"
