"""The commands that change a job or a node: what is sent, and what never is."""

from __future__ import annotations

import pytest

from relance.controllers.slurm import orders
from relance.domain.advice import Command
from relance.domain.nodes import Drain, NodeChange, Reserve, Undrain, Unreserve
from relance.domain.requests import RequestVerb, drain_reason, request_id, reservation_name
from relance.ports.schedulers import SchedulerRefusedError
from relance.testing.history_values import NOON

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
    orders.hold("17"),
    orders.arm("17", allowed=True),
    orders.arm("17", allowed=False),
    orders.constrain("17", ("n1",), None, "/logs/run-%j.out.r1"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_ours_names_its_job(command: Command) -> None:
    assert orders.check(command, NODES, ()) == "17"


KEY = request_id("alpha", "n1", RequestVerb.QUARANTINE, "ada", NOON)
UNTIL = NOON.replace(microsecond=0)
OF_NODES = (
    orders.change_node(Reserve(node="n1", name=reservation_name(KEY), until=UNTIL)),
    orders.change_node(Drain(node="n1", reason=drain_reason(KEY, "ada", "Xid 79: Action:Reboot"))),
    orders.change_node(Undrain(node="n1")),
    orders.change_node(Unreserve(node="n1", name=reservation_name(KEY))),
)


@pytest.mark.parametrize("command", OF_NODES)
def test_a_command_about_a_node_names_one_that_the_cluster_has_and_nothing_but_ours(command: Command) -> None:
    assert orders.check(command, NODES, ()) == ""
    if "ReservationName" not in command.argv[2]:
        with pytest.raises(SchedulerRefusedError, match="no node n1"):
            orders.check(command, ("n2",), ())
    for at in range(1, len(command.argv)):
        for words in ((), ("Flags=OVERLAP",), (f"{command.argv[at]}x",)):
            spoilt = (*command.argv[:at], *words, *command.argv[at + 1 :])
            with pytest.raises(SchedulerRefusedError):
                orders.check(Command(argv=spoilt), NODES, ())


@pytest.mark.parametrize(
    "change",
    [
        Reserve(node="n1", name="maintenance", until=UNTIL),
        Reserve(node="n1,n2", name=reservation_name(KEY), until=UNTIL),
        Reserve(node="ALL=", name=reservation_name(KEY), until=UNTIL),
        Unreserve(node="n1", name="maintenance"),
        Drain(node="n1", reason="Action:Reboot"),
        Drain(node="n1 State=DOWN", reason=drain_reason(KEY, "ada", "x")),
        Undrain(node="n[1-9]"),
    ],
)
def test_a_change_of_a_node_that_is_not_ours_or_not_of_one_node_is_not_built(change: NodeChange) -> None:
    with pytest.raises(SchedulerRefusedError):
        orders.change_node(change)


@pytest.mark.parametrize(
    "argv",
    [
        ("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=x"),
        ("scontrol", "update", "NodeName=n1", "State=RESUME"),
        ("scontrol", "update", "NodeName=n1", "State=DRAIN"),
        ("scontrol", "delete", "ReservationName=maintenance"),
        ("scontrol", "delete", "PartitionName=gpu"),
        ("scontrol", "create", "partition", "PartitionName=gpu"),
        ("scontrol", "hold", "17", "18"),
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
