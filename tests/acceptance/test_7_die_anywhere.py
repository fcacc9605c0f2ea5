"""Acceptance test 7: whatever of Relance dies, in whatever moment, the job runs once and nothing of ours is left.

The fixture has one machine: what is killed is the process, not its host. With the shipped database, which lives in the
server, server and database die together; a database server of its own is tried by the contract of the history. The
whole matrix of calls and faults is a benchmark (`slurm_shims`); here are the calls that change something. Those that
nobody starts again wait for Slurm's own start, two minutes, and belong to the soak. Shortened: the settle time (1 s),
the intervals at which the queue is read.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from bench.bars.slurm_shims import Case, Findings, run
from bench.shims import Fault, Kind, Shims
from bench.slurm_lanes import LIMITS, Lane, lane, lanes, side_by_side
from bench.slurm_sites import FAST_POLLS, SlurmSetup
from bench.stories import story_gaps
from relance.domain.events import IncidentEnd
from relance.testing.other_users import open_python, user_of
from tests.acceptance.stands import LIMIT_S, relance_on, told, until, witness
from tests.components.slurm import LeasedNodes, require_slurm

KILLS: Final = (Kind.KILL_BEFORE, Kind.KILL_DURING, Kind.KILL_AFTER)
CHANGES: Final = ("requeue", "update")


def case(operation: str, kind: Kind, *, again: bool) -> Case:
    """The first call of this operation in a restart, and what happens at it."""
    return Case(transaction="restart", fault=Fault(operation=operation, number=1, kind=kind), again=again)


SHORT: Final = (
    case("requeue", Kind.KILL_DURING, again=True),
    case("update", Kind.KILL_BEFORE, again=True),
)
LONG: Final = tuple(
    case(operation, kind, again=again) for again in (False, True) for operation in CHANGES for kind in KILLS
)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter; pytest closes its own to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def outcomes(made: list[Lane], cases: tuple[Case, ...]) -> tuple[Findings, list[str]]:
    """Let the cases happen; gives what was counted, and what came out wrong."""
    found = Findings()
    wrong: list[str] = []

    def one(each: Lane, item: Case) -> None:
        try:
            wrong.extend(f"{item.name}: {sentence}" for sentence in run(each, item, found, acting))
        except Exception as error:  # noqa: BLE001 -- the other cases go on
            wrong.append(f"{item.name}: {type(error).__name__}: {error}")

    acting = threading.Semaphore(len(made))
    for _ in made:
        acting.acquire()  # a case that only waits gives its own back
    side_by_side(made, cases, one)
    return found, wrong


@pytest.mark.timeout(600)
def test_relance_killed_at_a_call_that_changes_something_and_started_again_restarts_the_job_once(
    lease_nodes: Callable[[int], LeasedNodes], open_folder: Path
) -> None:
    """Acceptance test 7, the short form: killed during the requeue, and before the update."""
    nodes = lease_nodes(3)
    with lane(nodes.cluster, open_folder / nodes.partition, nodes.partition) as made, witness(nodes.cluster) as seen:
        found, wrong = outcomes([made], SHORT)
    assert (wrong, found.missed) == ([], 0)
    assert len(found.running_s) == len(SHORT)
    assert not [each for each in seen.together if each.startswith(f"{made.site.owner} {nodes.partition}")]


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_relance_killed_at_any_call_that_changes_something_and_perhaps_never_started_again() -> None:
    """Acceptance test 7: before, during and after requeue and update; within 150 s the job runs, once."""
    require_slurm()
    with lanes(2) as made:
        found, wrong = outcomes(made, LONG)
    assert (wrong, found.missed) == ([], 0)


@pytest.mark.timeout(600)
def test_when_server_and_database_die_in_a_transaction_the_controller_finishes_it_and_tells_it_later(
    lease_nodes: Callable[[int], LeasedNodes], open_folder: Path
) -> None:
    """Acceptance test 7: the roles apart; the server is killed between requeue and update, and started again later."""
    nodes = lease_nodes(2)
    cluster = nodes.cluster
    operator = user_of(cluster.plan.operator)
    shims = Shims(open_folder / "shims", operator, open_python(open_folder, operator))
    setup = SlurmSetup(
        scheduler={**FAST_POLLS, "partitions": [nodes.partition]},
        site={"limits": LIMITS},
        settings={"server": {"port": free_port()}},  # the same one after the server's restart
        environment={"PATH": f"{shims.folder}:{cluster.env['PATH']}"},
        apart=True,
    )
    with relance_on(cluster, setup, partition=nodes.partition) as site:
        made = Lane(site=site, shims=shims)
        job = made.submit()
        fault = Fault(operation="requeue", number=1, kind=Kind.PAUSE_AFTER)
        shims.watch(job, site.relance.role("controller").pid, fault)
        site.trainings.kill_rank(job, 1)
        until(lambda: shims.is_paused, LIMIT_S, "the requeue")
        server = site.relance.role("server")
        server.kill()
        assert server.wait(60.0) is not None
        shims.go_on()

        # Nobody but the controller is left to bring it to its end; Slurm by itself would take two minutes.
        cluster.wait_for_state(job, "RUNNING", time_limit_s=100.0)
        assert shims.calls.count("requeue") == 1
        assert shims.calls.count("update") == 1
        assert site.relance.ended() == ("server",)
        site.relance.start_role("server")
        site.reconnect()
        site.wait_for_end_of_incident(job, LIMIT_S)
        (item,) = site.incidents(job)
        assert item.end is IncidentEnd.RECOVERED, told(site, job)
        assert story_gaps(site, item) == []
        fields = cluster.job_fields(job)
        assert (fields["JobState"], fields["Restarts"]) == ("RUNNING", "1")
        assert fields.get("Comment", "(null)") in ("", "(null)")
        assert "No reservations" in cluster.must("root", ["scontrol", "show", "reservation"])
