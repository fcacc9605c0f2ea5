"""Exclusions of ours that are over are taken out of the lists of jobs that still wait: a small order of its own.

A list is written when a job is restarted; one that then waits for long may wait on because of a node that nobody keeps
out any more. Which nodes are ours the ledger knows; which of them are in force the server says. The user's stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

import structlog

from relance.controlling.exclusions import parts_of
from relance.controlling.leaves import Standing
from relance.controlling.ledger import LedgerUnusableError
from relance.controlling.paces import COMMAND_LIMIT_S, READ_AGE_S
from relance.controlling.senders import GRACE_S, Tools, call
from relance.controlling.sights import Sight
from relance.domain.ledgers import Excluded, LedgerState, Outcome
from relance.domain.views import ClusterReport, Hold, JobState, JobView
from relance.ports.backends import Orders
from relance.ports.schedulers import JobGoneError, SchedulerSilentError

_log = structlog.get_logger("relance.controlling")
SETTLED_S = 60.0
"""For so long nothing of a job has to be under way: the server learns of an exclusion when its action has ended."""
DELETED_NODE = (
    "where its list names a node that was deleted, Slurm (from 23.02) refuses every change of the job: make that node "
    "known again, or submit the job anew"
)
"""What a person can do about it (peers.md E3)."""
AGAIN_S = 300.0
"""Between two tries with one job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A list that is to be written without the nodes `gone`."""

    own: tuple[str, ...]
    ours: tuple[str, ...]
    gone: tuple[str, ...]
    owner: str


def due(job: JobView, written: tuple[Excluded, ...], orders: Orders, report: ClusterReport) -> Due | None:
    """What is to be taken out of a waiting job's list; None: nothing, or nobody can say. Pure."""
    if orders.kept_out is None or not report.nodes or not written:
        return None
    if job.state is not JobState.PENDING or job.hold is not Hold.NONE or job.only_watched:
        return None
    parts, owner = parts_of(job.excluded, written), written[-1].owner
    known = {node.name for node in report.nodes}
    in_force = {item.node for item in orders.kept_out if item.job == owner and item.node in known}
    gone = tuple(name for name in parts.ours if name not in in_force)
    if not gone:
        return None
    return Due(own=parts.own, ours=tuple(name for name in parts.ours if name in in_force), gone=gone, owner=owner)


class TakingBack:
    """Takes exclusions back, one job at a time, while we hold the lease and the job is at `act`."""

    def __init__(self, *, sight: Sight, tools: Tools, cluster: str, is_busy: Callable[[str], bool]) -> None:
        """Take the parts; `is_busy` says whether a transaction on a job (its key as text) is under way."""
        self._sight = sight
        self._tools = tools
        self._cluster = cluster
        self._is_busy = is_busy
        self._quiet_since_s: dict[str, float] = {}
        self._tried_s: dict[str, float] = {}
        self._problems: dict[str, str] = {}

    async def obey(self, orders: Orders, standing: Standing) -> str:
        """Take back what is over of one job; gives the problems that people should know of, or nothing."""
        report, state = self._sight.report, self._tools.ledger.state
        if report is None or standing.stop or standing.lease_left_s < COMMAND_LIMIT_S or not state.exclusions:
            return ""
        for job in self._quiet(report, orders, state):
            key = str(job.job_key(self._cluster))
            if due(job, state.exclusions[key], orders, report) is not None:
                self._tried_s[key] = self._tools.clock.monotonic()
                self._problems[key] = await self._take_back(job.raw_id, key, orders, report)
                break
        return "; ".join(text for text in self._problems.values() if text)

    def _quiet(self, report: ClusterReport, orders: Orders, state: LedgerState) -> list[JobView]:
        """The waiting jobs at `act` with lists of ours with which nothing was under way for a while."""
        now_s, acting = self._tools.clock.monotonic(), frozenset(orders.acting)
        busy = {str(record.began.advice.attempt.job) for record in state.actions.values()}
        ordered = {order.raw_id for order in orders.orders if order.advice.may_begin}
        raw_ids = {key.rsplit("/", 2)[1] for key in state.exclusions}
        waiting = {
            key: job
            for job in report.jobs
            if job.state is JobState.PENDING
            and job.raw_id in raw_ids
            and (key := str(job.job_key(self._cluster))) in state.exclusions
            and str(job.attempt_key(self._cluster)) in acting
            and not self._is_any_busy(busy, key, state.exclusions[key][-1].owner)
            and job.raw_id not in ordered
        }
        self._quiet_since_s = {key: self._quiet_since_s.get(key, now_s) for key in waiting}
        self._tried_s = {key: at_s for key, at_s in self._tried_s.items() if key in waiting}
        self._problems = {key: text for key, text in self._problems.items() if key in waiting}
        return [
            job
            for key, job in waiting.items()
            if now_s - self._quiet_since_s[key] >= SETTLED_S
            and now_s - self._tried_s.get(key, float("-inf")) >= AGAIN_S
        ]

    def _is_any_busy(self, busy: Collection[str], *keys: str) -> bool:
        return any(key in busy or self._is_busy(key) for key in keys)

    async def _take_back(self, raw_id: str, key: str, orders: Orders, report: ClusterReport) -> str:
        """Read the job, write down what its list will be, and write the list."""
        clock, ledger = self._tools.clock, self._tools.ledger
        read_at_s = clock.monotonic()
        try:
            async with asyncio.timeout(COMMAND_LIMIT_S + GRACE_S):
                job = await self._tools.scheduler.read(raw_id)
        except (JobGoneError, SchedulerSilentError, TimeoutError):
            return ""
        wanted = due(job, ledger.state.exclusions.get(key, ()), orders, report)
        if wanted is None or str(job.job_key(self._cluster)) != key:
            return ""
        nodes = (*wanted.own, *wanted.ours)
        try:
            ledger.append(Excluded(job=key, own=wanted.own, ours=wanted.ours, owner=wanted.owner, at=clock.now()))
        except LedgerUnusableError as error:
            return f"job {raw_id} is still kept off {', '.join(wanted.gone)}: {error}"
        if clock.monotonic() - read_at_s >= READ_AGE_S:
            return ""
        outcome, text, _ = await call(self._tools.scheduler, self._tools.scheduler.exclude(job, nodes))
        _log.info("exclusions taken back", job=raw_id, nodes=wanted.gone, outcome=outcome.value)
        if outcome is not Outcome.REFUSED:
            return ""
        still = f"job {raw_id} is still kept off {', '.join(wanted.gone)}, though our exclusion is over: {text}"
        return f"{still}; {DELETED_NODE}"
