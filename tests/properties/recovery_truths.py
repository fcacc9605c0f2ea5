"""What really happened: each command with what it met, and a follower that holds the history to its word."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain import records
from relance.domain.advice import ActionKind, Advice
from relance.domain.findings import Certainty, Finding, FindingKind, Sign
from relance.domain.keys import AttemptKey
from relance.domain.records import ClusterRecord, JobRecord, Record
from relance.domain.stages import Stage
from relance.domain.streams import Recorded, Stream
from relance.domain.twins import twins
from relance.domain.views import JobState, JobView, NodeState
from relance.ports.clocks import Clock
from relance.recovery.ordering import job_stage
from relance.recovery.sites import Site
from relance.testing.memory_clusters import MemoryCluster, Timings
from relance.testing.memory_histories import MemoryHistory

OURS = "simulated"
LOOK_AGE = timedelta(seconds=2)
"""How old the look may be in which a transaction found no copy, with the time of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A command of ours that the scheduler carried out, with the job as it was when it was sent."""

    verb: str
    job: JobView
    met: JobState
    """The job's state when it arrived."""
    twins: tuple[str, ...]
    """Other jobs that did the same work then, and had for long enough to be seen."""


class TruthfulCluster(MemoryCluster):
    """A cluster that remembers each command of ours and what it met."""

    def __init__(self, clock: Clock, *, nodes: int, name: str, timings: Timings) -> None:
        super().__init__(clock, nodes=nodes, name=name, timings=timings)
        self.carried: list[Carried] = []
        self._under_way: dict[tuple[str, ...], Carried] = {}
        self._time = clock

    def do(self, argv: tuple[str, ...]) -> None:
        sent = self._under_way.pop(argv, None) or self._met(argv)
        state = self.job(argv[2]).state
        super().do(argv)
        if argv[0] == OURS:
            self.carried.append(replace(sent, met=state))

    def do_later(self, argv: tuple[str, ...], at: datetime) -> None:
        self._under_way[argv] = self._met(argv)
        super().do_later(argv, at)

    def _met(self, argv: tuple[str, ...]) -> Carried:
        job, now = self.job(argv[2]), self._time.now()
        copies = twins(job, self.jobs(), job.started_at or job.submitted_at)
        old = tuple(twin.raw_id for twin in copies if self.job(twin.raw_id).first_submitted_at < now - LOOK_AGE)
        return Carried(verb=argv[1], job=job, met=job.state, twins=old)


class Chronicle:
    """Follows the history page by page, folds it, and says what should never have come to pass."""

    def __init__(self, history: MemoryHistory, site: Site, cluster: TruthfulCluster) -> None:
        """Begin before the first event."""
        self._history = history
        self._site = site
        self._cluster = cluster
        self._position = 0
        self._judged = 0
        self.records: dict[Stream, Record] = {}
        self.begun: dict[AttemptKey, list[e.ActionStarted]] = {}
        self._findings: dict[str, Finding] = {}
        self._were_lost: set[str] = set()
        """Nodes that the scheduler has lost at some time."""
        self._repeated: set[AttemptKey] = set()
        """Attempts that died at their launch and were started once more by the action that had started them."""

    async def read_on(self, limit: int = 7) -> None:
        """Read what is new, in pages, and judge it."""
        self._were_lost |= {node.name for node in self._cluster.nodes() if node.state is NodeState.DOWN}
        while page := await self._history.follow(self._position, limit):
            for item in page:
                assert item.position == self._position + 1, f"position {item.position} after {self._position}"
                self._position = item.position
                self._judge(item)
                known = self.records.get(item.stream) or records.new_record(item.stream.name)
                self.records[item.stream] = records.apply(known, item.event)
        for done in self._cluster.carried[self._judged :]:
            self._judge_command(done)
        self._judged = len(self._cluster.carried)

    async def compare(self) -> None:
        """The projections are what the events come to."""
        for stream, record in self.records.items():
            assert (await self._history.load(stream)).record == record, f"{stream} is not the fold of its events"

    def _judge(self, item: Recorded) -> None:
        event = item.event
        if isinstance(event, e.FindingReported):
            self._findings[event.finding.id] = event.finding
        elif isinstance(event, e.ActionStarted):
            self._judge_beginning(item, event)
        elif isinstance(event, e.AdviceIssued):
            attempt, record = event.advice.attempt, self.records[item.stream]
            assert isinstance(record, JobRecord)
            incident = record.incident(event.incident_id)
            assert incident is not None
            begun = self.begun.get(attempt)
            again = event.advice.may_begin and not incident.is_parked
            assert not (begun and again), f"new advice on {attempt}, on which an action had begun"
            self._judge_exclusions(event.advice)

    def _judge_exclusions(self, advice: Advice) -> None:
        """Few nodes are left out, and none that nothing but words tells of."""
        assert len(advice.exclude) <= self._site.rules(advice.attempt.job.cluster).limits.exclusions.per_decision
        told = [finding for finding in self._findings.values() if finding.attempt.job == advice.attempt.job]
        named = {odd.node for finding in told for odd in finding.odd}
        named |= {node for finding in told for node in finding.isolate}
        named |= {hit.node for finding in told for hit in finding.hits if hit.node is not None}
        lost = {node.name for node in self._cluster.nodes() if node.state is NodeState.DOWN}
        assert set(advice.exclude) <= named | lost | self._were_lost, f"{advice.exclude} left out, which nobody named"

    def _judge_end(self, attempt: AttemptKey) -> None:
        """What runs is ended for a death, a lost node or a confirmed hang, and for nothing else that was told of it."""
        told = [finding for finding in self._findings.values() if finding.attempt == attempt]
        hangs = [f for f in told if f.kind is FindingKind.HANG and f.certainty is Certainty.CONFIRMED]
        deaths = [f for f in told if f.kind is FindingKind.CRASH and f.signs & {Sign.PROCESS_DEATH, Sign.NODE_DOWN}]
        job = next((job for job in self._cluster.jobs() if job.attempt_key(self._cluster.name) == attempt), None)
        lost = job is not None and bool(set(job.nodes) & self._were_lost)
        assert hangs or deaths or lost, f"{attempt} ended although nothing proves that it cannot go on"

    def _judge_beginning(self, item: Recorded, event: e.ActionStarted) -> None:
        before = self.begun.setdefault(event.attempt, [])
        assert not before or event.kind is ActionKind.CONSTRAIN, f"two restarts begun of {event.attempt}"
        before.append(event)
        record = self.records[item.stream]
        assert isinstance(record, JobRecord)
        incident = record.incident(event.incident_id)
        assert incident is not None
        assert incident.advice is not None
        name = record.job.cluster
        cluster = self.records.get(Stream.of_cluster(name)) or ClusterRecord(cluster=name)
        assert isinstance(cluster, ClusterRecord)
        stage = job_stage(record, cluster, self._site.rules(name), item.recorded_at)
        assert stage.stage in (Stage.APPROVE, Stage.ACT), f"begun at stage {stage.stage.value}"
        assert incident.advice.generation == event.generation, "begun on a generation that was voided"
        assert incident.advice.may_begin, "begun on an advice that asks for nothing"
        assert item.recorded_at < incident.advice.expires_at, "begun on an advice that had expired"
        kind = incident.advice.ends_running
        assert kind is None or kind in stage.end_running, "begun to end a running attempt without consent"
        if kind is not None:
            self._judge_end(event.attempt)
        if stage.stage is Stage.APPROVE:
            approval = incident.approval
            assert approval is not None, "begun without an approval"
            assert approval.yes, "begun against a no"
            assert approval.generation == event.generation, "the approval was for another generation"
            assert approval.effect_digest == event.effect.digest, "the approval was for other commands"
            assert approval.until is not None, "the approval has no end"
            assert item.recorded_at < approval.until, "the approval had run out"

    def _judge_command(self, done: Carried) -> None:
        job = done.job
        what = f"{done.verb} of job {job.raw_id}, attempt {job.restart_count}, {job.state.value}"
        key = job.attempt_key(self._cluster.name)
        if done.verb == "requeue":
            again = job.reason == "JobLaunchFailure" and self._is_after_ours(key)
            kinds = {event.kind for event in self.begun.get(key, ())}
            assert again or kinds & {ActionKind.RESTART, ActionKind.PARK}, f"{what}, of which no restart had begun"
            assert done.met not in (JobState.CANCELLED, JobState.COMPLETED, JobState.TIMEOUT), (
                f"{what}, then {done.met}"
            )
            assert not done.twins, f"{what}, although {done.twins} does the same work"
            if again:
                self._repeated.add(key)
        else:
            assert key in self.begun or self._is_after_ours(key), f"{what}, on which no action had begun"

    def _is_after_ours(self, key: AttemptKey) -> bool:
        """Whether an attempt is one that an action of ours may have started."""
        if key.restart_count == 0:
            return False
        before = AttemptKey(job=key.job, restart_count=key.restart_count - 1)
        return before in self.begun or before in self._repeated
