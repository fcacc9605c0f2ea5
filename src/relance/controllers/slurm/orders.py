"""The commands that change a job or a node, and the check that nothing else is ever sent. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from relance.domain.advice import Command
from relance.domain.nodes import Drain, NodeChange, Reserve, Undrain, Unreserve, is_ours
from relance.ports.schedulers import SchedulerRefusedError
from relance.slurm import commands
from relance.slurm.commands import Change
from relance.slurm.errors import SlurmError
from relance.slurm.hostlists import expand
from relance.slurm.log_names import is_fit

_NOW = "StartTime=now"
_TIME = "%Y-%m-%dT%H:%M:%S"


def requeue(shown_id: str, *, if_living: bool = False) -> Command:
    """Put a job back into the queue; with `if_living` only if it still runs when Slurm comes to it."""
    return Command(argv=commands.requeue(shown_id, if_living=if_living))


def constrain(shown_id: str, exclude: tuple[str, ...], start_at: datetime | None, stdout: str | None = None) -> Command:
    """Set exclusions and start time of a pending job in one update; None: it may start now.

    `stdout` is a new name for its output; None: it keeps the one it has.
    """
    starts_at = 0 if start_at is None else int(start_at.timestamp())
    change = Change(excluded_nodes=exclude, starts_at=starts_at, stdout=stdout)
    return Command(argv=commands.update(shown_id, change))


def arm(shown_id: str, *, allowed: bool) -> Command:
    """Let a running job be requeued, or not any more."""
    return Command(argv=commands.update(shown_id, Change(requeue=allowed)))


def cancel(shown_id: str) -> Command:
    """End a job for good."""
    return Command(argv=commands.cancel(shown_id))


def exclude(shown_id: str, nodes: tuple[str, ...]) -> Command:
    """Set the exclusions of a pending job and leave its start time."""
    return Command(argv=commands.update(shown_id, Change(excluded_nodes=nodes)))


def requeue_held(shown_id: str, *, if_living: bool = False) -> Command:
    """Put a job back into the queue, where it stays until it is released."""
    return Command(argv=commands.requeue_held(shown_id, if_living=if_living))


def release(shown_id: str) -> Command:
    """End a hold."""
    return Command(argv=commands.release(shown_id))


def rearm(shown_id: str, dependency: str) -> Command:
    """Let a pending job wait for its dependency anew. Raises SchedulerRefusedError for one of a form not known here."""
    try:
        return Command(argv=commands.rearm(shown_id, dependency))
    except SlurmError as error:
        raise SchedulerRefusedError(str(error)) from error


def hold(shown_id: str) -> Command:
    """Keep a waiting job from starting."""
    return Command(argv=commands.hold(shown_id))


def change_node(change: NodeChange) -> Command:
    """Change a node. Raises SchedulerRefusedError for a name or a reason that is not fit for a command, or not ours."""
    if not is_ours(change):
        raise SchedulerRefusedError(f"node {change.node[:80]!r}: neither name nor reason is one of ours")
    try:
        return _change_node(change)
    except SlurmError as error:
        raise SchedulerRefusedError(f"node {change.node[:80]!r}: {error}") from error


def check(command: Command, nodes: Collection[str], arrays: Collection[str]) -> str:
    """The job that a command is about, if it is one of these, word by word; empty for one about a node.

    `nodes` are those that the cluster has, `arrays` the ids that stand for whole arrays. Raises SchedulerRefusedError.
    """
    try:
        job, named = _read(command.argv)
        if job:
            commands.job_id(job)
    except SlurmError as error:
        raise _not_ours(command) from error
    unknown = sorted(set(named) - set(nodes))
    if unknown:
        raise SchedulerRefusedError(f"the cluster has no node {', '.join(unknown)}: nothing was sent")
    if job in arrays:
        raise SchedulerRefusedError(f"{job} stands for all tasks of an array, not for one job: nothing was sent")
    return job


def _read(argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    match argv:
        case (
            ("scontrol", "requeue" | "requeuehold" | "hold" | "release", job)
            | ("scontrol", "requeue" | "requeuehold", "incomplete", job)
            | ("scancel", job)
        ):
            return job, ()
        case ("scontrol", "update", target, dependency) if target.startswith("JobId=") and dependency.startswith(
            "Dependency="
        ):
            job = target.removeprefix("JobId=")
            commands.rearm(job, dependency.removeprefix("Dependency="))
            return job, ()
        case ("scontrol", "update", target, "Requeue=0" | "Requeue=1") if target.startswith("JobId="):
            return target.removeprefix("JobId="), ()
        case ("scontrol", "update", target, nodes) if target.startswith("JobId=") and nodes.startswith("ExcNodeList="):
            return target.removeprefix("JobId="), expand(nodes.removeprefix("ExcNodeList="))
        case ("scontrol", "update", target, nodes, start, *output) if (
            target.startswith("JobId=") and nodes.startswith("ExcNodeList=") and _is_start(start) and _is_output(output)
        ):
            return target.removeprefix("JobId="), expand(nodes.removeprefix("ExcNodeList="))
        case ("scontrol", "create" | "delete", *_) | ("scontrol", "update", _, "State=DRAIN" | "State=UNDRAIN", *_):
            return "", _read_node(argv)
        case _:
            raise _not_ours(Command(argv=argv))


def _change_node(change: NodeChange) -> Command:
    match change:
        case Reserve():
            return Command(argv=commands.reserve(change.name, change.node, int(change.until.timestamp())))
        case Unreserve():
            return Command(argv=commands.unreserve(change.name))
        case Drain():
            return Command(argv=commands.drain(change.node, change.reason))
        case Undrain():
            return Command(argv=commands.undrain(change.node))


def _read_node(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The node that a command is about: what it says is made into a command anew, which has to be the same."""
    said = dict(word.split("=", 1) for word in argv if "=" in word)
    node, name = said.get("NodeName") or said.get("Nodes") or "", said.get("ReservationName", "")
    change: NodeChange
    if argv[1] == "delete":
        change = Unreserve(node="", name=name)
    elif argv[1] == "create":
        change = Reserve(node=node, name=name, until=_time_of(said.get("EndTime", ""), argv))
    elif "Reason" in said:
        change = Drain(node=node, reason=said["Reason"])
    else:
        change = Undrain(node=node)
    if change_node(change).argv != argv:
        raise _not_ours(Command(argv=argv))
    return (node,) if node else ()


def _time_of(text: str, argv: tuple[str, ...]) -> datetime:
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError as error:
        raise _not_ours(Command(argv=argv)) from error


def _is_output(words: list[str]) -> bool:
    return not words or (len(words) == 1 and words[0].startswith("StdOut=") and is_fit(words[0][len("StdOut=") :]))


def _is_start(word: str) -> bool:
    if word == _NOW:
        return True
    try:
        datetime.strptime(word, f"StartTime={_TIME}").replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


def _not_ours(command: Command) -> SchedulerRefusedError:
    return SchedulerRefusedError(f"not a command of this scheduler: {' '.join(command.argv)}")
