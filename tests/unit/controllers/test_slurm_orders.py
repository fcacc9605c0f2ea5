"""The commands that change a job: what is sent, and what never is."""

from __future__ import annotations

import pytest

from relance.controllers.slurm import orders
from relance.domain.advice import Command
from relance.ports.schedulers import SchedulerRefusedError

NODES = ("n1", "n2")


def test_what_runs_is_requeued_only_if_it_still_runs() -> None:
    assert orders.requeue("17", if_living=True).argv == ("scontrol", "requeue", "incomplete", "17")
    assert orders.requeue("17").argv == ("scontrol", "requeue", "17")


COMMANDS = (
    orders.requeue("17"),
    orders.requeue("17", if_living=True),
    orders.requeue_held("17"),
    orders.requeue_held("17", if_living=True),
    orders.release("17"),
    orders.rearm("17", "afterok:3_*:4_1,singleton"),
    orders.cancel("17"),
    orders.arm("17", allowed=True),
    orders.arm("17", allowed=False),
    orders.constrain("17", ("n1",), None, "/logs/run-%j.out.r1"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_ours_names_its_job(command: Command) -> None:
    assert orders.check(command, NODES, ()) == "17"


@pytest.mark.parametrize(
    "argv",
    [
        ("scontrol", "requeue", "incomplete"),
        ("scontrol", "requeue", "incomplete", "17", "18"),
        ("scontrol", "requeue", "Hold", "17"),
        ("scontrol", "requeuehold", "State=SpecialExit", "17"),
        ("scontrol", "release", "17", "18"),
        ("scontrol", "update", "JobId=17", "Requeue=2"),
        ("scontrol", "update", "JobId=17", "Requeue=1", "Priority=9"),
        ("scontrol", "update", "JobId=17", "ExcNodeList=n1", "StartTime=now", "StdOut=run.out"),
        ("scontrol", "update", "JobId=17", "ExcNodeList=n1", "StartTime=now", "StdOut=/a b"),
        ("scontrol", "update", "JobId=17", "ExcNodeList=n1", "StartTime=now", "StdOut=/a", "Priority=9"),
        ("scontrol", "update", "JobId=17", "ExcNodeList=n1", "StartTime=now", "Priority=9"),
        ("scontrol", "update", "JobId=17", "Dependency="),
        ("scontrol", "update", "JobId=17", "Dependency=afterok:3,afterok:4?afterok:5"),
        ("scontrol", "update", "JobId=17", "Dependency=afterok:3", "Priority=9"),
        ("scontrol", "update", "JobId=17", "Dependency=expand:3"),
        ("scancel", "--user=ada"),
    ],
)
def test_any_other_command_is_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(SchedulerRefusedError):
        orders.check(Command(argv=argv), NODES, ())


def test_a_whole_array_is_refused_either_way() -> None:
    for living in (True, False):
        with pytest.raises(SchedulerRefusedError):
            orders.check(orders.requeue("17", if_living=living), NODES, ("17",))
