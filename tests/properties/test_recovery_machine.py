"""Loops, backends and controllers in a hostile world: whatever happens, they do no harm, and every incident ends."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, Finding, FindingKind, OddNode, RuleHit, Sign
from relance.domain.keys import AttemptKey, stable_id
from relance.domain.stages import EndRunning, Stage
from relance.domain.views import Hold, JobState, JobView, NodeState
from relance.recovery.commands import Choice
from relance.testing.memory_clusters import RefusedError
from relance.testing.memory_schedulers import Fault, FaultKind
from tests.properties.mortal_processes import Trouble
from tests.properties.recovery_worlds import CLUSTER, RecoveryWorld

NAMES = st.sampled_from(["alba", "bora", "cima"])
STAGES = st.sampled_from([Stage.ACT, Stage.ACT, Stage.ACT, Stage.APPROVE, Stage.OBSERVE, Stage.OFF])
CONSENTS = st.sets(st.sampled_from(EndRunning)).map(frozenset)
INDEX = st.integers(0, 1)
PICK = st.integers(0, 11)
_MOST_JOBS = 4
LIVING = (JobState.PENDING, JobState.RUNNING, JobState.COMPLETING)


class RecoveryMachine(RuleBasedStateMachine):
    """Everything that can happen, in any order."""

    @initialize(
        seed=st.integers(0, 2**16),
        stage=st.sampled_from([Stage.ACT, Stage.ACT, Stage.APPROVE, Stage.OBSERVE]),
        pairs=st.integers(1, 2),
    )
    def begin(self, seed: int, stage: Stage, pairs: int) -> None:
        self.world = RecoveryWorld(seed)

        async def story() -> None:
            for index in range(pairs):
                await self.world.start_server(index)
                await self.world.start_controller(index)
            await self.world.set_stage(stage, frozenset(EndRunning))
            self.world.cluster.submit("alba", user="alba")
            await self.world.pass_time(20.0)

        self.world.play(story())

    # -- time

    @rule(duration_s=st.sampled_from([0.3, 1.0, 3.0, 7.0, 15.0]))
    def a_little_time_passes(self, duration_s: float) -> None:
        self.world.play(self.world.pass_time(duration_s))

    @rule(duration_s=st.sampled_from([25.0, 40.0, 130.0, 320.0]))
    def much_time_passes(self, duration_s: float) -> None:
        self.world.play(self.world.pass_time(duration_s))

    @rule(seconds=st.sampled_from([-3, -1, 2]))
    def the_clock_steps(self, seconds: int) -> None:
        self.world.time.step_wall_clock(timedelta(seconds=seconds))

    # -- jobs

    @rule(name=NAMES, mode=st.sampled_from(["", "", "act", "observe"]), nodes=st.integers(1, 3))
    def somebody_submits(self, name: str, mode: str, nodes: int) -> None:
        if len(self.world.jobs_in(*LIVING)) < _MOST_JOBS:
            comment = f"relance:{mode}" if mode else ""
            self.world.cluster.submit(name, user=name, nodes=nodes, comment=comment)
            self.world.play(self.world.pass_time(2.0))

    @rule(
        pick=PICK,
        runs_s=st.sampled_from([0.0, 12.0, 40.0]),
        then_s=st.sampled_from([6.0, 7.0, 8.0, 10.0, 0.0]),
        answer=st.sampled_from(["", "", "yes", "yes", "no", "claim"]),
    )
    def an_attempt_crashes(self, pick: int, runs_s: float, then_s: float, answer: str) -> None:
        """It runs a while, breaks, and some time passes: most of what Relance does begins so. A person may answer."""
        self.world.play(self.world.pass_time(runs_s))
        job = self._job(pick, JobState.RUNNING)
        if job is not None:
            self.world.findings += [self._crash(job, pick)] if pick % 4 else []
            self.world.cluster.end(job.raw_id, JobState.FAILED)
            self.world.play(self.world.pass_time(then_s))
            if answer == "claim":
                self.world.play(self.world.claim_carelessly(0, 0))
            elif answer:
                self.world.play(self._answer(0, yes=answer == "yes", later=False))
            self.world.play(self.world.pass_time(1.0))

    @rule(pick=PICK, state=st.sampled_from([JobState.NODE_FAIL, JobState.OUT_OF_MEMORY, JobState.TIMEOUT,
                                            JobState.COMPLETED, JobState.PREEMPTED]))  # fmt: skip
    def an_attempt_ends_otherwise(self, pick: int, state: JobState) -> None:
        job = self._job(pick, JobState.RUNNING)
        if job is None:
            return
        if state is JobState.PREEMPTED:
            self.world.cluster.preempt(job.raw_id)
        else:
            self.world.cluster.end(job.raw_id, state, exit_code=0 if state is JobState.COMPLETED else 1)

    @rule(pick=PICK, freezes=st.booleans(), kind=st.sampled_from([
        "crash", "suspected", "confirmed", "cold", "passing", "odd", "slowdown", "divergence", "node_health",
    ]))  # fmt: skip
    def something_is_found(self, pick: int, freezes: bool, kind: str) -> None:
        job = self._job(pick, JobState.RUNNING)
        if job is None:
            return
        key = job.attempt_key(CLUSTER)
        if freezes:
            self.world.frozen.setdefault(key, self.world.clock.now())
        found = self._crash(job, pick) if kind == "crash" else self._finding(key, kind)
        if kind in ("odd", "node_health"):
            found = self._of_node(found, job, pick)
        self.world.findings.append(found)

    @rule(pick=PICK, down=st.booleans())
    def a_node_changes(self, pick: int, down: bool) -> None:
        name = f"node{pick % 6 + 1:03d}"
        self.world.cluster.set_node(name, NodeState.DOWN if down else NodeState.IDLE)

    # -- people

    @rule(pick=PICK, what=st.sampled_from(["cancel", "requeue", "hold", "release", "copy", "later"]))
    def somebody_turns_to_the_scheduler(self, pick: int, what: str) -> None:
        cluster = self.world.cluster
        states = (*LIVING, JobState.FAILED) if what in ("requeue", "copy", "cancel") else (JobState.PENDING,)
        job = self._job(pick, *states)
        if job is None:
            return
        try:
            match what:
                case "cancel":
                    cluster.cancel_by(job.raw_id, 1001)
                case "requeue":
                    cluster.do(("person", "requeue", job.raw_id))
                case "hold" | "release":
                    cluster.hold(job.raw_id, Hold.USER if what == "hold" else Hold.NONE)
                case "later":
                    cluster.ask_for_time(job.raw_id, self.world.clock.now() + timedelta(seconds=60))
                case _:
                    cluster.submit(job.name, user=job.user, nodes=job.node_count)
        except RefusedError:
            return

    @rule(pick=PICK, stage=STAGES, consents=CONSENTS, meanwhile=st.booleans())
    def somebody_sets_a_limit(self, pick: int, stage: Stage, consents: frozenset[EndRunning], meanwhile: bool) -> None:
        """An operator the stage, mostly; or an owner that of a job, which `act` lifts; maybe while all are at work."""
        job = self._job(pick, *JobState)
        deed: Coroutine[Any, Any, object] = self.world.set_stage(stage, consents)
        if pick % 3 == 0 and job is not None:
            deed.close()
            ceiling = None if stage is Stage.ACT else stage
            deed = self.world.commands.switch_job(str(job.job_key(CLUSTER)), ceiling, job.user)
        if meanwhile:
            self.world.meanwhile.append(deed)
        else:
            self.world.play(self.world.try_to(deed))

    @rule(pick=PICK, later=st.booleans())
    def somebody_answers(self, pick: int, later: bool) -> None:
        self.world.play(self._answer(pick, yes=pick > 2, later=later))

    # -- processes

    @rule(index=INDEX, what=st.sampled_from(["starts anew", "starts anew", "is killed"]))
    def a_server(self, index: int, what: str) -> None:
        self.world.servers[index] = None
        if what == "starts anew":
            self.world.play(self.world.start_server(index))

    @rule(index=INDEX, what=st.sampled_from(["starts anew", "starts anew", "is killed", "loses its ledger"]))
    def a_controller(self, index: int, what: str) -> None:
        self.world.play(self.world.kill_controller(index))
        if what == "loses its ledger":
            self.world.lose_ledger(index)
        if what != "is killed":
            self.world.play(self.world.start_controller(index))

    @rule(index=INDEX, calls=st.integers(0, 12), is_done_first=st.booleans())
    def a_controller_dies_at_a_call(self, index: int, calls: int, is_done_first: bool) -> None:
        process = self.world.controllers[index]
        if process is not None:
            process.scheduler.death = (calls, is_done_first)

    @rule(who=st.sampled_from(["controller-0", "controller-1", "watcher"]), index=INDEX)
    def an_agent_turns_to_a_server(self, who: str, index: int) -> None:
        self.world.connected[who] = index

    @rule(index=INDEX, calls=st.integers(0, 2), answers=st.integers(0, 2))
    def calls_or_answers_get_lost(self, index: int, calls: int, answers: int) -> None:
        process = self.world.controllers[index]
        if process is not None:
            process.wire.lost_calls, process.wire.lost_answers = calls, answers

    @rule(index=INDEX, after=st.integers(0, 6), trouble=st.sampled_from(Trouble))
    def the_history_has_trouble(self, index: int, after: int, trouble: Trouble) -> None:
        server = self.world.servers[index]
        if server is not None:
            server.troubles.coming.append((after, trouble))

    @rule(index=INDEX, number=st.integers(1, 2), kind=st.sampled_from(FaultKind), after_s=st.sampled_from([2.0, 25.0]))
    def a_command_goes_wrong(self, index: int, number: int, kind: FaultKind, after_s: float) -> None:
        process = self.world.controllers[index]
        if process is not None:
            scheduler = process.scheduler
            scheduler.faults.commands[len(scheduler.sent) + number] = Fault(kind=kind, after_s=after_s)

    @rule(index=INDEX, silent=st.booleans(), partial=st.booleans(), for_s=st.sampled_from([1.0, 8.0, 40.0]))
    def the_scheduler_is_hard_to_see(self, index: int, silent: bool, partial: bool, for_s: float) -> None:
        process = self.world.controllers[index]
        if process is not None:
            process.scheduler.faults.is_silent = silent
            process.scheduler.faults.is_partial = partial
            self.world.play(self.world.pass_time(for_s))
            process.scheduler.faults.is_silent = process.scheduler.faults.is_partial = False

    @rule(kind=st.sampled_from(["WatcherBatch", "ClusterReport", "Claim", "StepRecord"]), pick=PICK, index=INDEX)
    def a_message_comes_late_or_again(self, kind: str, pick: int, index: int) -> None:
        messages = self.world.post.get(kind)
        if messages:
            self.world.play(self.world.deliver(messages[pick % len(messages)], index))

    @rule(pick=PICK, index=INDEX)
    def a_careless_controller_claims(self, pick: int, index: int) -> None:
        self.world.play(self.world.claim_carelessly(pick, index))

    # -- what must hold

    @invariant()
    def nothing_happened_that_should_not(self) -> None:
        if hasattr(self, "world"):
            self.world.play(self.world.chronicle.read_on())

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.play(self._to_the_end())
        finally:
            self.world.close()

    async def _to_the_end(self) -> None:
        """All troubles end, people tidy up, and every incident must come to its end."""
        world = self.world
        await world.start_server(0)
        world.servers[1] = None
        for who in world.connected:
            world.connected[who] = 0
        for index in range(2):
            await world.start_controller(index)
        for number in range(1, 7):
            world.cluster.set_node(f"node{number:03d}", NodeState.IDLE)
        for _ in range(60):
            await self._tidy_up()
            await world.pass_time(30.0, most_rounds=4)
            await world.chronicle.read_on()
            if not await world.history.incidents(open_only=True) and not world.jobs_in(*LIVING):
                break
        await world.chronicle.compare()
        await world.history.rebuild()
        await world.chronicle.compare()
        open_ones = [
            (row.incident.state, row.incident.attempt.job.raw_id)
            for row in await world.history.incidents(open_only=True)
        ]
        assert not open_ones, f"incidents that do not end: {open_ones}"
        living = [(job.raw_id, job.state, job.reason) for job in world.jobs_in(*LIVING)]
        assert not living, f"jobs that do not go on: {living}"

    async def _tidy_up(self) -> None:
        """People release what they hold, and jobs that ran for long enough complete; what hangs is cancelled."""
        world, now = self.world, self.world.clock.now()
        for job in world.cluster.jobs():
            if job.state is JobState.PENDING and job.hold is not Hold.NONE:
                world.cluster.hold(job.raw_id, Hold.NONE)
            ran = job.state is JobState.RUNNING and job.started_at is not None
            if ran and job.started_at is not None and now - job.started_at > timedelta(seconds=50):
                if job.attempt_key(CLUSTER) in world.frozen:
                    world.cluster.cancel_by(job.raw_id, 1001)
                else:
                    world.cluster.end(job.raw_id, JobState.COMPLETED, exit_code=0)

    # -- short forms

    def _job(self, pick: int, *states: JobState) -> JobView | None:
        jobs = self.world.jobs_in(*states)
        return jobs[pick % len(jobs)] if jobs else None

    async def _answer(self, pick: int, *, yes: bool, later: bool) -> None:
        """A person says yes or no to what is shown, at once or after a while."""
        commands, rows = self.world.commands, await self.world.history.incidents(open_only=True)
        shown = [row.incident for row in rows if row.incident.advice is not None]
        if not shown:
            return
        incident = shown[pick % len(shown)]
        assert incident.advice is not None
        choice = Choice(
            advice_id=incident.advice.id,
            generation=incident.advice.generation,
            effect_digest=incident.effect.digest if incident.effect else "",
        )
        if later:
            await self.world.pass_time(3.0)
        await self.world.try_to(commands.approve(choice, "grace") if yes else commands.deny(choice, "grace", "no"))

    def _finding(self, key: AttemptKey, kind: str) -> Finding:
        now = self.world.clock.now()
        number = next(self.world.numbers)
        confirmed = kind not in ("suspected", "passing", "node_health", "crash")
        kinds = {"cold": FindingKind.DID_NOT_RESUME, "slowdown": FindingKind.SLOWDOWN,
                 "divergence": FindingKind.DIVERGENCE, "node_health": FindingKind.NODE_HEALTH}  # fmt: skip
        symptoms = {"cold": "did_not_resume", "slowdown": "slowdown", "divergence": "loss_nan",
                    "node_health": "row_remap_pending"}  # fmt: skip
        return Finding(
            id=stable_id("fnd", key, kind, number),
            attempt=key,
            detector="hang",
            kind=kinds.get(kind, FindingKind.HANG),
            certainty=Certainty.CONFIRMED if confirmed else Certainty.SUSPECTED,
            symptom=symptoms.get(kind, "hang"),
            summary=kind,
            first_evidence_at=now,
            symptom_at=now,
            signs=frozenset({Sign.OWNER_LIMIT}) if kind == "confirmed" else frozenset(),
            is_passing=kind == "passing",
        )

    def _of_node(self, finding: Finding, job: JobView, pick: int) -> Finding:
        """The same of a node: it stands out in a hang by some sign, or shows one of failing while the job goes on."""
        node = job.nodes[pick % len(job.nodes)] if job.nodes else "node001"
        signs = frozenset({list(Sign)[pick % len(Sign)]})
        if finding.kind is FindingKind.HANG:
            return replace(finding, signs=signs, odd=(OddNode(node=node, by=signs),))
        return replace(finding, signs=signs, isolate=(node,) if pick % 2 else ())

    def _crash(self, job: JobView, pick: int) -> Finding:
        key, now = job.attempt_key(CLUSTER), self.world.clock.now()
        hardware = pick % 3 == 0
        hit = RuleHit(
            rule="xid.79" if hardware else "python.traceback",
            symptom="gpu_fell_off_bus" if hardware else "python_exception",
            domain=FaultDomain.HARDWARE if hardware else FaultDomain.APPLICATION,
            role=Role.ROOT,
            suspect=SuspectKind.SELF if hardware else SuspectKind.NONE,
            restart=RestartHint.EXCLUDE if hardware else (RestartHint.ONCE if pick % 3 == 1 else RestartHint.NO),
            weight=1.0,
            scope=Scope.KERNEL if hardware else Scope.APPLICATION,
            seen_at=now,
            at=now,
            rank=None if hardware else 0,
            node=job.nodes[pick % len(job.nodes)] if job.nodes else None,
            device="GPU 1" if hardware else None,
            file="log",
            offset=next(self.world.numbers),
            excerpt="it broke",
        )
        finding = self._finding(key, "crash")
        signs = frozenset({Sign.KERNEL if hardware else Sign.PROCESS_DEATH})
        return replace(finding, kind=FindingKind.CRASH, detector="crash", certainty=Certainty.CONFIRMED,
                       symptom=hit.symptom, hits=(hit,), signs=signs)  # fmt: skip


_ALWAYS = settings(
    deadline=None,
    phases=[Phase.reuse, Phase.generate],  # shrinking takes minutes: `make soak` does it
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestRecovery = RecoveryMachine.TestCase
TestRecovery.settings = settings(_ALWAYS, max_examples=80, stateful_step_count=30)


class LongRecoveryMachine(RecoveryMachine):
    """The same for hours, with longer stories, and failures made as short as can be."""


TestRecoveryAtLength = pytest.mark.soak(LongRecoveryMachine.TestCase)
TestRecoveryAtLength.settings = settings(_ALWAYS, max_examples=50_000, stateful_step_count=60, phases=list(Phase))
