"""What is read of the cluster besides its jobs, each at its own interval: nodes, reservations, settings, rights."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from relance.controllers.slurm import rights as rights_of
from relance.controllers.slurm.budgets import Interval
from relance.controllers.slurm.fitness import Rights, fitness
from relance.controllers.slurm.powers import refuses
from relance.controllers.slurm.questions import Questions
from relance.controllers.slurm.requirements import kills_dependents, window_s
from relance.controllers.slurm.rows import node_view, time_of, window_of
from relance.controllers.slurm.states import is_down, is_drained, plan_of
from relance.domain.nodes import NodeSight
from relance.domain.views import NodeView, SchedulerFacts, Window
from relance.ports.clocks import Clock
from relance.ports.schedulers import SchedulerSilentError
from relance.slurm.errors import SlurmError
from relance.slurm.site_records import ControlFacts
from relance.telemetry.schedulers import SchedulerMeter

_HURRY_S = 2.0
"""Nodes are read no more often than this, whatever asks for them."""
_STALE_INTERVALS = 3
"""Nodes that could not be read for so many intervals are not reported any more."""
_RIGHTS_S = 300.0
_LACKING_RIGHTS_S = 60.0
"""Rights that do not let us act are asked for more often: somebody who has just given them waits for it."""
_FOREVER_S = 86_400.0 * 3650
"""MinJobAge=0: ended jobs are never forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The cluster as it was read last."""

    control: ControlFacts
    facts: SchedulerFacts
    rights: Rights
    nodes: tuple[NodeView, ...]
    windows: tuple[Window, ...]
    problems: tuple[str, ...] = ()


class SiteReader:
    """Keeps what was read for as long as it is good."""

    def __init__(
        self, questions: Questions, clock: Clock, meter: SchedulerMeter, *, account: tuple[str, int] | None,
        intervals_s: tuple[float, float],
    ) -> None:  # fmt: skip
        """Take our account (name and uid; None: the other side says so), and the intervals of nodes and of settings."""
        self._questions = questions
        self._clock = clock
        self._account = account
        nodes_s, settings_s = intervals_s
        self._nodes_due = Interval("nodes", nodes_s, meter)
        self._settings_due = Interval("settings", settings_s, meter)
        self._rights_due = Interval("rights", _RIGHTS_S, meter)
        self._control: ControlFacts | None = None
        self._rights: Rights | None = None
        self._nodes: tuple[NodeView, ...] | None = None
        self._windows: tuple[Window, ...] = ()
        self._nodes_s = float("-inf")
        self._rights_s = float("-inf")
        self._is_hurried = False

    @property
    def node_names(self) -> frozenset[str]:
        """The nodes that the cluster has, as far as they were read."""
        return frozenset(node.name for node in self._nodes or ())

    def hurry(self) -> None:
        """Something happened to a node, or is about to be decided on: read them with the next look."""
        self._is_hurried = True

    def doubt(self) -> None:
        """Slurm did not answer: read its settings, and with them when it was started, with the next look."""
        self._settings_due.hurry()

    async def read(self, *, urgent: bool = False) -> Site:
        """The cluster, read anew where it is due; what is urgent waits for no budget.

        Raises SchedulerSilentError while something was never read.
        """
        asked = (self.read_nodes(urgent=urgent), self._read_control(urgent=urgent))
        problems = [text for text in await asyncio.gather(*asked) if text]
        control, rights = self._control, self._rights
        if control is None or rights is None or self._nodes is None:
            raise self._questions.way.failure("; ".join(problems) or "the cluster's settings are not known yet")
        age_s = self._clock.monotonic() - self._nodes_s
        is_stale = age_s > _STALE_INTERVALS * self._nodes_due.seconds
        return Site(
            control=control,
            facts=self._with_the_way(facts_of(control, rights)),
            rights=rights,
            nodes=() if is_stale else self._nodes,
            windows=self._windows,
            problems=tuple(problems),
        )

    def _with_the_way(self, facts: SchedulerFacts) -> SchedulerFacts:
        """These facts, with what the way to Slurm lacks, and soon will."""
        way = self._questions.way
        return replace(facts, lacks=(*facts.lacks, *way.lacks), impairments=way.impairments())

    async def read_nodes(self, *, urgent: bool = False) -> str:
        """Read nodes and reservations if they are due; gives what went wrong."""
        begun_s = self._clock.monotonic()
        hurried = self._is_hurried and begun_s - self._nodes_s >= _HURRY_S
        if not hurried and not self._nodes_due.is_due(begun_s):
            return ""
        try:
            nodes = await self._questions.nodes(urgent=hurried or urgent)
            answered_s = self._clock.monotonic()
            reservations = await self._questions.reservations(urgent=hurried or urgent)
        except SchedulerSilentError as error:
            return f"nodes cannot be read: {error}"
        self._nodes = tuple(node_view(node) for node in nodes)
        self._windows = tuple(window for each in reservations if (window := window_of(each)) is not None)
        self._nodes_s = begun_s
        self._is_hurried = False
        self._nodes_due.asked(begun_s, answered_s)
        return ""

    async def read_one(self, name: str) -> NodeSight | None:
        """One node as it is now, with its reservations; None: there is no such node. Raises SchedulerSilentError."""
        nodes, reservations = await asyncio.gather(
            self._questions.nodes(urgent=True), self._questions.reservations(urgent=True)
        )
        found = next((node for node in nodes if node.name == name), None)
        if found is None:
            return None
        windows = (window_of(each) for each in reservations if name in each.nodes)
        return NodeSight(
            view=node_view(found),
            is_drained=is_drained(found),
            is_down=is_down(found),
            planned=plan_of(found),
            windows=tuple(window for window in windows if window is not None),
        )

    async def _read_control(self, *, urgent: bool) -> str:
        begun_s = self._clock.monotonic()
        text = ""
        if self._settings_due.is_due(begun_s):
            try:
                control = await self._questions.settings(urgent=urgent)
                self._settings_due.asked(begun_s, self._clock.monotonic())
                self._control = replace(control, federation=await self._federation(urgent=urgent))
            except SchedulerSilentError as error:
                text = f"the settings of Slurm cannot be read: {error}"
        return text or await self._read_rights(urgent=urgent)

    async def _federation(self, *, urgent: bool) -> str | None:
        """The federation that the cluster is part of; None: that cannot be read, and nothing is done while it lasts."""
        try:
            return await self._questions.federation(urgent=urgent)
        except SchedulerSilentError:
            return None

    async def _read_rights(self, *, urgent: bool) -> str:
        begun_s = self._clock.monotonic()
        lacks = self._rights is not None and not (self._rights.may_act_everywhere or self._rights.coordinates)
        if lacks and begun_s - self._rights_s >= _LACKING_RIGHTS_S:
            self._rights_due.hurry()
        if not self._rights_due.is_due(begun_s):
            return ""
        self._rights_s = begun_s
        account = self._account or self._questions.way.account
        if account is None:
            return "as whom we ask is not known yet"
        user, uid = account
        try:
            asked = rights_of.question(user)
            self._rights = await self._questions.rights(
                asked, lambda answer: rights_of.parse(answer, user, uid), urgent=urgent
            )
            self._rights_due.asked(begun_s, self._clock.monotonic())
        except (SchedulerSilentError, SlurmError) as error:
            # Rights that cannot be read are none: nothing is done with them.
            self._rights = Rights(user=user, uid=uid, admin_level=None)
            return f"our rights cannot be read: {error}"
        return ""


def facts_of(control: ControlFacts, rights: Rights) -> SchedulerFacts:
    """What the scheduler says of itself, and what our account may do."""
    lacking = [item for item in fitness(control, rights) if not item.level.allows_act]
    age_s = control.min_job_age_s
    return SchedulerFacts(
        release=control.release,
        booted_at=time_of(control.booted_at),
        min_job_age_s=300.0 if age_s is None else float(age_s) or _FOREVER_S,
        # One second more than the credential lives (seen: 121 s).
        requeue_delay_s=1.0 + window_s(control),
        kill_wait_s=30.0 if control.kill_wait_s is None else float(control.kill_wait_s),
        unkillable_s=60.0 if control.unkillable_s is None else float(control.unkillable_s),
        kills_dependents=kills_dependents(control),
        may_act=rights.may_act_everywhere or bool(rights.coordinates),
        lacks=tuple(f"{item.text}; {item.remedy}" if item.remedy else item.text for item in lacking),
        refuses=refuses(rights),
    )


def has_accounting(control: ControlFacts) -> bool:
    """Whether the cluster writes down what became of jobs."""
    return control.accounting_type not in (None, "none", "accounting_storage/none")
