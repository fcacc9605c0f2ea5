"""Signals of a metric store: one round of queries for the whole cluster, told to the attempts that they concern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Sight
from relance.domain.keys import AttemptKey
from relance.domain.views import Assignment
from relance.ports.clocks import Clock
from relance.ports.signals import Signals
from relance.rules.metric_queries import Question, presence, questions, samples
from relance.rules.metric_rules import MetricRule, Point, Series, Test
from relance.rules.metrics import evaluate
from relance.sources.exchanges import Exchange, StoreAnswerError, StoreAwayError, StoreBusyError, StoreError
from relance.sources.metrics.asking import FIRST_LOOK_S, Asker
from relance.sources.metrics.clients import MetricClient
from relance.sources.metrics.closely import CloseLooks
from relance.sources.metrics.deciding import Decider
from relance.sources.metrics.exported import OLDEST_S, ExportedProgress
from relance.sources.metrics.places import Places
from relance.sources.metrics.presences import GONE_S, Presence
from relance.sources.metrics.settings import MetricSettings
from relance.sources.metrics.shapes import series_of
from relance.sources.metrics.standing import StoreStanding
from relance.sources.metrics.tellings import Tellings
from relance.sources.turns import Turns

_LOG = structlog.get_logger("relance.sources.metrics")
_NAMES_EVERY_S, _FEW_NAMES_EVERY_S = 300.0, 30.0
_PRESENCE_EVERY_S = 30.0
_NODES_NAMED = 8
_SKEW_S = 300.0
"""As far as Prometheus looks back for a sample (its default): what is further off is of another time."""


class MetricSource:
    """Implements `relance.ports.signals.SignalSource` over one store of Prometheus' query API."""

    def __init__(
        self,
        settings: MetricSettings,
        rules: Sequence[MetricRule],
        clock: Clock,
        store_time: Callable[[], float] | None = None,
    ) -> None:
        """Open a store. `store_time` is asked for instead of the store's own now (of stores that are filled by hand).

        Raises StoreError for a certificate file that cannot be used.
        """
        self._settings = settings
        self._clock = clock
        self._store_time = store_time
        self._client = MetricClient(Exchange(settings.exchange), Turns(settings.requests_per_s, clock))
        self._places = Places(settings.naming, settings.node_value)
        self._tellings = Tellings(settings.name, level_quiet_s=max(2 * settings.poll_s + 5.0, 30.0))
        self._questions: tuple[Question, ...] = questions(rules)
        self._asker = Asker(self._client, self._questions, settings, self._places)
        self._decider = Decider(self._client, self._questions, settings, self._tellings, self._places)
        self._close = CloseLooks(self._client, rules, settings, self._tellings, self._places)
        self._presences = [Presence(rule) for rule in rules if rule.when.test is Test.VANISHES]
        progress = settings.progress
        self._exported = (
            ExportedProgress(self._client, progress, settings.naming, settings.name) if progress is not None else None
        )
        self._standing = StoreStanding(settings.name)
        self._assignments: dict[AttemptKey, Assignment] = {}
        self._closely: frozenset[AttemptKey] = frozenset()
        self._names: frozenset[str] = frozenset()
        self._names_at = self._presence_at = float("-inf")
        self._now = float("-inf")
        self._lag = ""
        self._due = clock.monotonic()

    @property
    def name(self) -> str:
        """Its name."""
        return self._settings.name

    @property
    def requests(self) -> int:
        """How many queries were sent so far."""
        return self._client.requests

    @property
    def names(self) -> frozenset[str]:
        """The names of the series that the store has; empty before the first look."""
        return self._names

    def assign(self, assignments: Sequence[Assignment], closely: frozenset[AttemptKey]) -> None:
        """Follow exactly these attempts."""
        self._assignments = {each.attempt: each for each in assignments}
        self._closely = closely & self._assignments.keys()
        self._places.know(node for each in assignments for node in each.nodes)
        self._tellings.follow(assignments)
        self._close.forget(self._closely)
        if self._exported is not None:
            self._exported.follow(assignments)

    async def look(self) -> None:
        """Wait until it is time, then ask once for all."""
        while (wait_s := self._due - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait_s)
        begun = self._clock.monotonic()
        self._due = begun + self._settings.poll_s
        try:
            notes = await self._answered_round()
        except StoreError as error:
            self._standing.failed(error, self._clock.now())
            again_s = self._standing.again_in_s(self._settings.poll_s)
            self._due = self._clock.monotonic() + again_s
            _LOG.warning("metric store gave no answer", source=self.name, reason=str(error), again_in_s=again_s)
        else:
            self._standing.looked(self._known_to(), self._lag, notes)

    def hurry(self) -> None:
        """Let the next look begin at once, and see anew which series there are."""
        self._due = self._clock.monotonic()
        self._names_at = float("-inf")

    def take(self, attempt: AttemptKey) -> Signals:
        """What is new of an attempt."""
        assignment = self._assignments.get(attempt)
        if assignment is None:
            return Signals()
        return Signals(signals=self._tellings.take(attempt), coverage=self._coverage(assignment))

    def sight(self) -> tuple[Coverage, ...]:
        """How the store stands."""
        return (self._standing.coverage(),)

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()

    # -------------------------------------------------------------------------------------------------------- a round

    async def _answered_round(self) -> tuple[str, ...]:
        """A round; what of its answers nobody thought of is an answer of no use, and ends nothing else."""
        try:
            return await self._round()
        except StoreError:
            raise
        except Exception as error:
            _LOG.exception("an answer could not be used", source=self.name)
            message = f"what {self._client.host} answered could not be used: {type(error).__name__}"
            raise StoreAnswerError(
                message, "see what stands between it and us; report it if it is the store"
            ) from error

    async def _round(self) -> tuple[str, ...]:
        at = self._store_time() if self._store_time is not None else None
        told = await self._client.vector("time()", at)
        now = told.at if told.at is not None else self._clock.now().timestamp()
        if at is None:
            self._mind_clock(now)
        self._now = now
        names_every_s = _NAMES_EVERY_S if self._asker.asked else _FEW_NAMES_EVERY_S
        if abs(now - self._names_at) >= names_every_s or not self._names:
            await self._learn_names(now)
        notes = []
        if abs(now - self._presence_at) >= _PRESENCE_EVERY_S - self._settings.poll_s / 2:
            await self._look_for_presence(now, at)
            self._presence_at = now
        if self._client.warning:
            notes.append(f"the store warns: {self._client.warning}")
        answers = await self._asker.ask(now, at, self._tellings.nodes)
        devices = self._devices()
        unread = set()
        for answer in answers:
            try:
                await self._decider.decide(answer, at, devices)
            except (StoreAwayError, StoreBusyError):
                raise
            except StoreError as error:
                self._asker.refused[answer.question] = str(error)
                unread.add(answer.question)
        self._asker.settle(unread)
        await self._look_closely(now, at, devices, notes)
        if self._exported is not None:
            for attempt, mark in (await self._exported.look(at)).items():
                self._tellings.queue(attempt, (mark,))
        self._tellings.forget(now)
        return (*notes, *self._refusals())

    def _known_to(self) -> datetime | None:
        """Up to when silence is silence: not beyond the newest sample of a store that gets none; None: nobody knows."""
        now = self._clock.now()
        if self._exported is None:
            return now
        stepped_at = self._exported.newest_at
        known = [at for at in (stepped_at, *(each.newest for each in self._presences)) if at is not None]
        if not known:
            return None
        unfed_s = self._now - max(known)
        is_fed = unfed_s <= (GONE_S if stepped_at is None else OLDEST_S)
        return now - timedelta(seconds=self._exported.age_s if is_fed else unfed_s)

    def _mind_clock(self, now: float) -> None:
        """See that the store means our times. Raises StoreAnswerError: else what it tells is of other times."""
        ahead_s = now - self._clock.now().timestamp()
        if abs(ahead_s) > _SKEW_S:
            how = "ahead of" if ahead_s > 0 else "behind"
            message = f"the clock of {self._client.host} is {abs(ahead_s):.0f} s {how} ours"
            raise StoreAnswerError(message, "set both clocks by the same time servers")

    async def _learn_names(self, now: float) -> None:
        naming = self._settings.naming
        self._names = await self._client.names(naming.braces({}) if naming.match else "")
        self._names_at = now
        self._asker.know(self._names, now)
        for each in self._presences:
            each.names = tuple(name for name in each.rule.series if name in self._names)

    def _refusals(self) -> tuple[str, ...]:
        refused = self._asker.refused
        if not refused:
            return ()
        first = min(refused)
        rules = self._questions[first].rules[0].id
        return (f"{len(refused)} of {self._asker.asked} questions were not answered; {rules}: {refused[first]}",)

    def _devices(self) -> dict[str, int]:
        return next((each.devices for each in self._presences if each.is_of_devices and each.names), {})

    async def _look_closely(self, now: float, at: float | None, devices: dict[str, int], notes: list[str]) -> None:
        labels = {node: label for each in reversed(self._presences) for node, label in each.labels.items()}
        for attempt in sorted(self._closely, key=str):
            try:
                await self._close.look(self._assignments[attempt], self._names, labels, devices, (now, at))
            except (StoreAwayError, StoreBusyError):
                raise
            except StoreError as error:
                notes.append(f"{attempt.job.raw_id} could not be looked at closely: {error}")

    # ------------------------------------------------------------------------------------------------------- presence

    async def _look_for_presence(self, now: float, at: float | None) -> None:
        """See which nodes have metrics, and tell of those that have no more. If most have none, the way is broken."""
        lags = []
        for each in self._presences:
            if not each.names:
                continue
            query = presence(each.names, self._settings.naming)
            if not each.last:  # who went away just before we came is known from then; a store looks back 300 s
                for before in (now - FIRST_LOOK_S, now - FIRST_LOOK_S / 2):
                    each.take(await self._client.vector(query, before), self._places, before)
            each.take(await self._client.vector(query, at), self._places, now)
            gone = each.gone(self._tellings.nodes, now, self._presences)
            if gone.mass is not None:
                lags.append(
                    f"{each.names[0]} of {gone.mass[0]} of {gone.mass[1]} nodes has stopped: see whether the store "
                    "still gets its samples"
                )
            for node in self._tellings.nodes:
                if each.is_there(node, now):
                    self._tellings.over((each.rule.id, node, None))
            for node in gone.nodes:
                if not self._tellings.holds((each.rule.id, node, None), now):
                    await self._tell_gone(each, node, now, at)
        self._lag = "; ".join(lags)

    async def _tell_gone(self, each: Presence, node: str, now: float, at: float | None) -> None:
        """Read the last samples of a node, and have the rule decide beside the nodes that went on."""
        label, value = each.labels[node]
        window_s = now - each.last[node] + GONE_S
        query = samples(each.names, label, (value,), self._settings.naming, window_s)
        series = [one for one in series_of(await self._client.matrix(query, at), self._places) if one.node == node]
        others = [other for other, last in each.last.items() if last > each.last[node] + GONE_S][:2]
        for name in {one.name for one in series}:
            series += [Series(name=name, node=other, points=(Point(each.last[other], 0.0, "", 0),)) for other in others]
        for hit in evaluate((each.rule,), series, datetime.fromtimestamp(now, UTC)):
            if hit.node == node:
                self._tellings.meet(each.rule, hit, now)

    def _coverage(self, assignment: Assignment) -> tuple[Coverage, ...]:
        """What the store has of an attempt's nodes."""
        whole = self._standing.coverage()
        if whole.sight is not Sight.SEEN:
            return (whole,)
        found = [whole]
        for each in self._presences:
            what = "GPU metrics" if each.is_of_devices else "host metrics"
            source = f"{self.name}: {what}"
            if not each.names:
                found.append(
                    Coverage(source=source, sight=Sight.MISSING, note=f"the store has no {what}", scope=Scope.METRICS)
                )
                continue
            missing = each.missing(assignment.nodes, self._now)
            if missing:
                named = ", ".join(missing[:_NODES_NAMED]) + (" ..." if len(missing) > _NODES_NAMED else "")
                many = (
                    f"nodes {named} ({len(missing)} of {len(assignment.nodes)})"
                    if len(missing) > 1
                    else f"node {named}"
                )
                note = f"no {what} of {many}: see that the exporter runs there and that node_label names the node"
                found.append(
                    Coverage(source=source, sight=Sight.MISSING, up_to=whole.up_to, note=note, scope=Scope.METRICS)
                )
        return tuple(found)
