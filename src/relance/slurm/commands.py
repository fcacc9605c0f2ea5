"""Argument lists of Slurm's commands. Pure; each value in them has been checked, and none is a user's own text.

Times in arguments are UTC and absolute, which is what they mean under the `TZ=UTC` of `relance.slurm.running`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from relance.slurm.errors import BadArgumentError
from relance.slurm.hostlists import compress
from relance.slurm.log_names import is_fit
from relance.slurm.parsing.accounting import ACCOUNTING_COLUMNS
from relance.slurm.parsing.briefs import BRIEF_COLUMNS, EXCLUSION_COLUMNS
from relance.slurm.parsing.glances import GLANCE_COLUMNS
from relance.slurm.parsing.steps import STEP_COLUMNS
from relance.slurm.parsing.watches import WATCH_COLUMNS

_JOB_ID = re.compile(r"[1-9]\d{0,9}(?:_\d{1,7}|\+\d{1,4})?\Z", re.ASCII)
_AFTER = r"(?:after|afterany|afterburstbuffer|aftercorr|afternotok|afterok)"
_TERM = rf"(?:singleton|{_AFTER}(?::\d{{1,10}}(?:_(?:\d{{1,7}}|\*))?(?:\+\d{{1,7}})?)+)"
_DEPENDENCY = re.compile(rf"{_TERM}(?:(?:,{_TERM}){{0,63}}|(?:\?{_TERM}){{0,63}})\Z", re.ASCII)
_WHAT = "a dependency"
_MARK = re.compile(r"~[0-9a-f]{16,64}~\Z", re.ASCII)
_NODE = re.compile(r"(?!(?i:all)\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,254}\Z", re.ASCII)
"""Slurm takes ALL, in any spelling, for every node (seen on 22.05: one command drains or reserves the cluster)."""
_RESERVATION = re.compile(r"relance-[A-Za-z0-9_-]{1,56}\Z", re.ASCII)
"""Names that only we give: nobody else's reservation is deleted by any command of ours."""
_REASON = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .,:_/@+()-]{0,299}\Z", re.ASCII)
_ONE_JOB = ("squeue", "--all", "--local", "--array-unique", "--states=all")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def job_id(text: str) -> str:
    """The id itself if it may enter a command: 12, 3_1 or 10+1.

    Raises:
        BadArgumentError: Anything else.
    """
    return _checked(_JOB_ID, text, "the id of a job")


def glance(*, mark: str) -> tuple[str, ...]:
    """All records of slurmctld's memory, ended ones too, at a glance; read by `parse_glances`."""
    ends = f":{_checked(_MARK, mark, 'a mark')}"
    columns = ",".join(f"{column}{ends}" for column in GLANCE_COLUMNS)
    return ("squeue", "--all", "--local", "--array-unique", "--states=all", f"--Format={columns}")


def all_jobs() -> tuple[str, ...]:
    """All records of slurmctld's memory in full, ended ones too; read by `parse_jobs`."""
    return ("squeue", "--all", "--local", "--states=all", "--json")


def some_jobs(ids: Iterable[str]) -> tuple[str, ...]:
    """Some records in full; 22.05 answers with all of them, so pick what you want (`pick_job`).

    A job that slurmctld has forgotten is left out; if it is the only one, later releases refuse or answer with none.
    """
    return (*all_jobs()[:-1], f"--jobs={_ids(ids)}", "--json")


def brief(job: str, *, mark: str) -> tuple[str, ...]:
    """One job, and only that one, in a table; read by `parse_brief`."""
    ends = f":{_checked(_MARK, mark, 'a mark')}"
    columns = ",".join(f"{column}{ends}" for column in BRIEF_COLUMNS)
    return (*_ONE_JOB, f"--jobs={job_id(job)}", f"--Format={columns}")


def watch(*, mark: str, job: str = "") -> tuple[str, ...]:
    """All records, or one job's, in the table that the watchdog needs; read by `parse_watched`."""
    ends = f":{_checked(_MARK, mark, 'a mark')}"
    one = (f"--jobs={job_id(job)}",) if job else ()
    return (*_ONE_JOB, *one, f"--Format={','.join(f'{column}{ends}' for column in WATCH_COLUMNS)}")


def exclusions(job: str, *, mark: str) -> tuple[str, ...]:
    """The nodes that one job excludes, in a table; read by `parse_exclusions`."""
    end = _checked(_MARK, mark, "a mark")
    columns = "".join(f"{column}{end}" for column in EXCLUSION_COLUMNS)
    return (*_ONE_JOB, f"--jobs={job_id(job)}", f"--format={columns}")


def living_steps(*, mark: str, ids: Iterable[str] = ()) -> tuple[str, ...]:
    """The steps that live now, of all jobs or of some; read by `parse_steps`."""
    end = _checked(_MARK, mark, "a mark")
    wanted = tuple(ids)
    of_jobs = (f"--jobs={_ids(wanted)}",) if wanted else ()
    columns = "".join(f"{column}{end}" for column in STEP_COLUMNS)
    return ("squeue", "--all", "--local", "--steps", *of_jobs, f"--format={columns}")


def nodes() -> tuple[str, ...]:
    """All nodes, hidden ones too; read by `parse_nodes`."""
    return ("scontrol", "--all", "show", "node")


def reservations() -> tuple[str, ...]:
    """All reservations; read by `parse_reservations`."""
    return ("scontrol", "--all", "show", "reservation")


def settings() -> tuple[str, ...]:
    """What the site set; read by `parse_settings`."""
    return ("scontrol", "show", "config")


def federation() -> tuple[str, ...]:
    """The federation that the cluster is part of; read by `parse_federation`."""
    return ("scontrol", "show", "federation")


def accounting_fields() -> tuple[str, ...]:
    """The fields that this release's accounting knows; asks nobody. Read by `knows_restarts`."""
    return ("sacct", "--helpformat")


def accounting_of(ids: Iterable[str], *, mark: str, has_restarts: bool = False) -> tuple[str, ...]:
    """Every attempt of some jobs, with steps; read by `parse_accounting`. `has_restarts`: ask for `Restarts` too."""
    return (*_accounting(mark, has_restarts=has_restarts), f"--jobs={_ids(ids)}")


def accounting_since(since_s: int, *, mark: str, has_restarts: bool = False) -> tuple[str, ...]:
    """Every attempt of any user that was there at some time since then, with steps; read by `parse_accounting`."""
    return (*_accounting(mark, has_restarts=has_restarts), "--allusers", f"--starttime={_time(since_s)}")


def requeue(job: str, *, if_living: bool = False) -> tuple[str, ...]:
    """Put a job back into the queue: a running one is ended. Slurm does so with a cancelled or completed job too.

    With `if_living` slurmctld itself leaves alone what is ending or over, with exit code 0 and no word (seen on 22.05).
    """
    return ("scontrol", "requeue", *(("incomplete",) if if_living else ()), job_id(job))


def requeue_held(job: str, *, if_living: bool = False) -> tuple[str, ...]:
    """As `requeue`, and the job does not start before it is released. Seen on 22.05: `incomplete` works here, too."""
    return ("scontrol", "requeuehold", *(("incomplete",) if if_living else ()), job_id(job))


def release(job: str) -> tuple[str, ...]:
    """Let a held job start."""
    return ("scontrol", "release", job_id(job))


def rearm(job: str, dependency: str) -> tuple[str, ...]:
    """Give a pending job its dependency anew: Slurm forgets that it called it one that is never satisfied.

    Raises:
        BadArgumentError: A dependency that is not made of Slurm's own words and ids.
    """
    return ("scontrol", "update", f"JobId={job_id(job)}", f"Dependency={_checked(_DEPENDENCY, dependency, _WHAT)}")


def hold(job: str) -> tuple[str, ...]:
    """Keep a waiting job from starting. Given by an operator its owner may not release it (JobHeldAdmin, seen).

    On a running job it is accepted too, and holds it back at its next requeue (seen): see that it waits first.
    """
    return ("scontrol", "hold", job_id(job))


def reserve(name: str, node: str, until_s: int) -> tuple[str, ...]:
    """Keep new jobs off one node from now until that time, in seconds since 1970; what runs there goes on.

    A name that is taken is refused ("Duplicate reservation name", seen).
    """
    return (
        "scontrol", "create", "reservation", f"ReservationName={_checked(_RESERVATION, name, 'a reservation')}",
        f"Nodes={_checked(_NODE, node, 'a node')}", "StartTime=now", f"EndTime={_time(until_s)}",
        "Flags=MAINT,IGNORE_JOBS", "Users=root",
    )  # fmt: skip


def unreserve(name: str) -> tuple[str, ...]:
    """Delete a reservation. One that is not there is refused ("Requested reservation is invalid", seen)."""
    return ("scontrol", "delete", f"ReservationName={_checked(_RESERVATION, name, 'a reservation')}")


def drain(node: str, reason: str) -> tuple[str, ...]:
    """Keep new jobs off a node by its state. A reason that it has already is overwritten: read before."""
    name, why = _checked(_NODE, node, "a node"), _checked(_REASON, reason, "a reason")
    return ("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={why}")


def undrain(node: str) -> tuple[str, ...]:
    """Let new jobs onto a drained node: UNDRAIN leaves the rest of its state alone, where RESUME would not."""
    return ("scontrol", "update", f"NodeName={_checked(_NODE, node, 'a node')}", "State=UNDRAIN")


def marked_step(argv: tuple[str, ...], name: str) -> tuple[str, ...]:
    """A command whose `srun` gives its step that name, where the command does not name it itself.

    A step of another name is taken for a person at work in the job. What a script starts has to be named there.
    """
    at = next((index for index, word in enumerate(argv) if word.rpartition("/")[2] == "srun"), None)
    if at is None or any(word.startswith(("--job-name", "-J")) for word in argv[at + 1 :]):
        return argv
    return (*argv[: at + 1], f"--job-name={name}", *argv[at + 1 :])


def cancel(job: str) -> tuple[str, ...]:
    """End a job for good. 22.05 answers with exit code 0 also for a job that it does not know."""
    return ("scancel", job_id(job))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one `scontrol update` sets; None: left as it is.

    Attributes:
        excluded_nodes: The whole list, the user's own included; empty clears it.
        starts_at: Seconds since 1970 before which it may not start; 0: it may start now.
        stdout: The path, or pattern, of its output.
        requeue: Whether it may be requeued; a running job takes this, too.
    """

    excluded_nodes: tuple[str, ...] | None = None
    starts_at: int | None = None
    stdout: str | None = None
    requeue: bool | None = None


def update(job: str, change: Change) -> tuple[str, ...]:
    """Set everything in one call; slurmctld takes it as one message.

    Raises:
        BadArgumentError: Nothing to set, or a value that is not fit for a command.
    """
    words: list[str] = []
    if change.excluded_nodes is not None:
        words.append(f"ExcNodeList={compress(change.excluded_nodes)}")
    if change.starts_at is not None:
        words.append(f"StartTime={'now' if change.starts_at == 0 else _time(change.starts_at)}")
    if change.stdout is not None:
        if not is_fit(change.stdout):
            raise _bad("a path that may enter a command", change.stdout)
        words.append(f"StdOut={change.stdout}")
    if change.requeue is not None:
        words.append(f"Requeue={int(change.requeue)}")
    if not words:
        raise BadArgumentError("An update that sets nothing.")
    return ("scontrol", "update", f"JobId={job_id(job)}", *words)


def _accounting(mark: str, *, has_restarts: bool) -> tuple[str, ...]:
    columns = (*ACCOUNTING_COLUMNS, "Restarts") if has_restarts else ACCOUNTING_COLUMNS
    return (
        "sacct", "--duplicates", "--parsable", f"--delimiter={_checked(_MARK, mark, 'a mark')}",
        f"--format={','.join(columns)}",
    )  # fmt: skip


def _ids(ids: Iterable[str]) -> str:
    wanted = tuple(ids)
    if not wanted:
        raise BadArgumentError("A list of no jobs, which Slurm would take for all jobs.")
    return ",".join(job_id(each) for each in wanted)


def _checked(pattern: re.Pattern[str], text: str, what: str) -> str:
    if pattern.match(text) is None:
        raise _bad(what, text)
    return text


def _time(seconds: int) -> str:
    if not 0 < seconds < 1 << 35:
        raise _bad("a time", str(seconds))
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def _bad(what: str, text: str) -> BadArgumentError:
    return BadArgumentError(f"Not {what}: {text[:80]!r}. Nothing was run.", text=text[:200])
