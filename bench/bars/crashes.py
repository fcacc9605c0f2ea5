"""`kill -9` at every moment of a transaction, and Relance started again or never again.

A proxy on the scheduler's socket kills the process before a request goes out, after the scheduler has done it, and when
the answer has come. Every change and the reads between them are moments, those of the ledger's writes among them: the
ledger is written before a request goes out and after its answer.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measures import Limit, Result
from bench.proxies import CHANGES, Moment, Shot, SocketProxy
from bench.rigs import NO_STORM, PARTITION, Rig, Setup, TooLateError, folder, until
from relance.domain.events import IncidentEnd
from relance.domain.stages import EndRunning
from relance.recovery.rows import IncidentItem
from relance.testing.clusters import Training

_QUICK_CASES = 6
_MOST_READS = 4
"""Reads of the job beyond these are the same wait again."""
_REQUEUE_DELAY_S = 6.0
"""How long the scheduler holds a requeued job back; when we die in it, the job starts by itself."""
_OVER_S = 60.0
_STEPS, _STEP_S = 400, 0.1
_SEED = 20260101


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One crash."""

    transaction: str
    """"restart", "restart_excluding" or "end_running"."""
    op: str
    number: int
    moment: Moment
    again: bool
    """Whether Relance is started again."""
    apart: bool
    """Whether the controller alone is killed, or all of `relance up`."""

    @property
    def name(self) -> str:
        """For reports."""
        end = "started again" if self.again else "never again"
        whole = "controller" if self.apart else "up"
        return f"{self.transaction}: {whole} killed {self.moment.value} {self.op} {self.number}, {end}"


_TRANSACTIONS = ("restart", "restart_excluding", "end_running")


def measure(*, quick: bool) -> Result:
    """Crash at each moment of each kind of transaction; a sample of them when quick."""
    results: dict[bool, _Worker] = {apart: _Worker(apart=apart, quick=quick) for apart in (True, False)}
    threads = [threading.Thread(target=worker.run) for worker in results.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = [sentence for worker in results.values() for sentence in worker.wrong]
    cases = sum(worker.cases for worker in results.values())
    missed = sum(worker.missed for worker in results.values())
    return Result(
        name="crashes",
        measure="kill -9 before, during and after every step of every transaction",
        limits=(Limit(name="cases that came out wrong", value=len(wrong) if cases else None, most=0, unit=""),),
        figures={
            "cases": cases,
            "moments that did not come": missed,
            "steps": {
                ("controller alone: " if apart else "relance up: ") + kind: " ".join(steps)
                for apart, worker in results.items()
                for kind, steps in worker.steps.items()
            },
        },
        wrong=tuple(wrong),
        conditions=(
            f"a real controller on the real simulated scheduler, which holds a requeued job back for "
            f"{_REQUEUE_DELAY_S:g} s; at most one new attempt, it runs, nothing is held; started again: the incident "
            "ends and the action has an end"
        ),
    )


class _Worker:
    """Runs cases one after another on a cluster of its own."""

    def __init__(self, *, apart: bool, quick: bool) -> None:
        self.apart = apart
        self.quick = quick
        self.wrong: list[str] = []
        self.steps: dict[str, Sequence[str]] = {}
        self.cases = 0
        self.missed = 0
        self._jobs = 0

    def run(self) -> None:
        """Run them all; what goes wrong is kept, never raised."""
        with folder() as place:
            made = Rig(place, _setup(place, apart=self.apart))
            role = "controller" if self.apart else "up"
            proxy = SocketProxy(place / "proxy", made.cluster.state_dir, lambda: made.relance.role(role).pid)
            try:
                with proxy:
                    made.start()
                    made.client.set_stage(made.setup.stage, None, PARTITION, frozenset(EndRunning))
                    self._run_all(made, proxy)
            except Exception as error:  # noqa: BLE001 -- a bench reports what happened
                self.wrong.append(f"{role}: {type(error).__name__}: {error}")
            finally:
                made.stop()

    def _run_all(self, made: Rig, proxy: SocketProxy) -> None:
        cases: list[Case] = []
        for transaction in _TRANSACTIONS:
            self.steps[transaction] = self._steps_of(made, proxy, transaction)
            cases += _cases(transaction, self.steps[transaction], apart=self.apart)
        if self.quick:
            cases = random.Random(_SEED).sample(cases, min(_QUICK_CASES, len(cases)))
        for case in cases:
            self.cases += 1
            try:
                self.wrong += [f"{case.name}: {sentence}" for sentence in self._run(made, proxy, case)]
            except TooLateError as error:
                self.wrong.append(f"{case.name}: {error}")
                self._bring_back(made)

    def _steps_of(self, made: Rig, proxy: SocketProxy, transaction: str) -> list[str]:
        """The requests of a transaction in which nobody is killed."""
        job, node = self._broken(made, proxy, transaction, None)
        made.wait_for_end_of_incident(job, _OVER_S)
        self._clear(made, job, node)
        return list(proxy.seen)

    def _run(self, made: Rig, proxy: SocketProxy, case: Case) -> list[str]:
        job, node = self._broken(made, proxy, case.transaction, case)
        if not proxy.has_fired.wait(_OVER_S / 2):
            self.missed += 1
            self._clear(made, job, node)
            return []
        role = made.relance.role("controller" if case.apart else "up")
        role.wait(10.0)
        if case.again:
            self._bring_back(made)
            made.wait_for_end_of_incident(job, _OVER_S)
        else:
            time.sleep(_REQUEUE_DELAY_S + 3.0)
        found = _wrong(made, job, node, case, proxy.seen)
        if not case.again:
            self._bring_back(made)
        self._clear(made, job, node)
        return found

    def _broken(self, made: Rig, proxy: SocketProxy, transaction: str, case: Case | None) -> tuple[int, str]:
        """A training whose fault calls for this transaction; gives the job and the node that is broken, if any."""
        self._jobs += 1
        wish = '{"relance": {"hang_after_s": 3}}' if transaction == "end_running" else ""
        job = made.cluster.submit(
            Training(
                name=f"crash-{self._jobs}",
                nodes=2,
                ranks_per_node=1,
                steps=_STEPS,
                step_s=_STEP_S,
                comment=wish,
            )
        )
        made.wait_for_step(job, 12)
        shot = None
        if case is not None:
            shot = Shot(job_id=job, op=case.op, number=case.number, moment=case.moment)
        proxy.watch(job, shot)
        node = ""
        match transaction:
            case "restart_excluding":
                node = str(made.cluster.job(job)["node_list"][1])
                made.cluster.ask("break_node", node=node, kind="xid79", after_steps=1)
                until(lambda: made.state(job) != "RUNNING", 20.0, f"the fault of job {job}")
                made.cluster.ask("mend_node", node=node)
            case "end_running":
                made.cluster.ask("stop_rank", job_id=job, rank=1)
            case _:
                made.cluster.ask("kill_rank", job_id=job, rank=1)
        return job, node

    def _bring_back(self, made: Rig) -> None:
        role = "controller" if self.apart else "up"
        if made.relance.role(role).exit_code is not None:
            made.relance.start_role(role)
            if role == "up":
                made.reconnect()

    def _clear(self, made: Rig, job: int, node: str) -> None:
        if made.state(job) in ("PENDING", "RUNNING", "COMPLETING"):
            made.cluster.ask("cancel", job_id=job)
        if node:
            made.cluster.ask("mend_node", node=node)
        until(lambda: made.state(job) not in ("PENDING", "RUNNING", "COMPLETING"), 20.0, f"the end of job {job}")


def _setup(place: Path, *, apart: bool) -> Setup:
    limits: dict[str, Any] = {
        "settle_s": 0,
        "grace_after_boot_s": 0,
        "hang": {"suspected_min_s": 2},
        "exclusions": {"per_partition_share": 1},  # each case keeps a node out for its own job
        "storms": NO_STORM,
    }
    return Setup(
        cluster={"nodes": 6, "kill_wait_s": 1.0, "requeue_delay_s": _REQUEUE_DELAY_S},
        site={"limits": limits},
        end_running=frozenset(EndRunning),
        apart=apart,
        socket_dir=place / "proxy",
    )


def _cases(transaction: str, steps: Sequence[str], *, apart: bool) -> list[Case]:
    counts: dict[str, int] = {}
    found: list[Case] = []
    for op in steps:
        counts[op] = counts.get(op, 0) + 1
        if op not in CHANGES and counts[op] > _MOST_READS:
            continue
        found += [
            Case(transaction=transaction, op=op, number=counts[op], moment=moment, again=again, apart=apart)
            for moment in Moment
            for again in (True, False)
        ]
    return found


def _wrong(made: Rig, job: int, node: str, case: Case, seen: Sequence[str]) -> list[str]:
    """What came out wrong in a case."""
    found: list[str] = []
    row, attempts = made.cluster.job(job), made.cluster.attempts(job)
    if len(attempts) > 2:
        found.append(f"{len(attempts) - 1} new attempts")
    if row["hold"] != "none":
        found.append(f"the job is held by {row['hold']}")
    was_requeued = int(row["restart_count"]) > 0
    if was_requeued and row["state"] != "RUNNING":
        found.append(f"the new attempt is {row['state']} ({row['reason']})")
    if not case.again:
        return found
    if not was_requeued:
        found.append("no new attempt, though Relance was started again")
    newest = made.incidents(job)[-1]
    if newest.end not in (IncidentEnd.RECOVERED, IncidentEnd.RUNNING_UNPROVEN):
        found.append(f"the incident ended as {newest.end.value if newest.end else 'open'}: {newest.end_reason}")
    if node and was_requeued and node not in row["exclude"] and "update" in seen:
        found.append(f"node {node} is not kept out")
    return found + _story_gaps(made, newest)


def _story_gaps(made: Rig, incident: IncidentItem) -> list[str]:
    story = made.client.incident_story(incident.id)
    if story.action is None:
        return ["the story has no action"]
    if story.action.end is None:
        return ["the action has no end in the story"]
    return []
