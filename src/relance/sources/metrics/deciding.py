"""From nodes that a question points to to hits: their samples alone are read, and the rules decide on these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from relance.domain.findings import RuleHit
from relance.domain.views import Assignment
from relance.rules.metric_queries import LONG_S, Question, Reach, samples, standing
from relance.rules.metric_rules import MetricRule, Series
from relance.rules.metrics import PEERS_STEP_S, Standing, Standings, evaluate
from relance.sources.metrics.asking import MARGIN_S, Answer, Pointed
from relance.sources.metrics.clients import Matrix, MetricClient
from relance.sources.metrics.places import Places, by_label
from relance.sources.metrics.settings import MetricSettings
from relance.sources.metrics.shapes import device_of, series_of, since, standings_of
from relance.sources.metrics.tellings import GROWTH_QUIET_S, Tellings, key_of

_NODES_AT_ONCE = 64
_NODES_A_ROUND = 256
_LOOKED_BACK_AT_MOST_S = 21_600.0
"""The onset of what holds is looked for so far back; before that it is as if it began with the attempt."""
_AGAIN_S = 30.0
"""What a query points to and the rule does not confirm is read again so often."""
_PATIENCE_S = 120.0
_MOMENTS_AT_MOST = 16
_FEW_NODES = 3
_A_MOMENT_S = 0.001


@dataclass(slots=True)
class _Pending:
    """A node that is pointed to and was not told yet: since when, and when to read it again."""

    first: float
    again: float
    devices: set[str | None] = field(default_factory=set)


class Decider:
    """Decides for one store."""

    def __init__(
        self,
        client: MetricClient,
        questions: Sequence[Question],
        settings: MetricSettings,
        tellings: Tellings,
        places: Places,
    ) -> None:
        self._client = client
        self._questions = questions
        self._settings = settings
        self._tellings = tellings
        self._places = places
        self._pending: dict[tuple[int, str], _Pending] = {}
        self._standings: dict[str, tuple[float, Mapping[int, Standing]]] = {}

    async def decide(self, answer: Answer, at: float | None, devices: Mapping[str, int]) -> None:
        """Read what an answer points to, and tell what rules say of it. Raises StoreError.

        `devices` is how many devices nodes have: what most devices of an attempt show is no sign of one of them.
        """
        question = self._questions[answer.question]
        for number, node in [key for key in self._pending if key[0] == answer.question]:
            if node not in answer.nodes:
                del self._pending[number, node]
        nodes = {node: each for node, each in answer.nodes.items() if self._is_open(question, node, each)}
        if question.rules[0].when.test.asks_peers:
            nodes = {node: each for node, each in nodes.items() if self._stands_out(node, answer.nodes, devices)}
        nodes = dict(sorted(nodes.items())[:_NODES_A_ROUND])
        due = {node: each for node, each in nodes.items() if self._is_due(answer, node, each)}
        for chunk in _chunks(due):
            await self._read(question, answer, chunk, at)
        self._standings.clear()

    def _is_open(self, question: Question, node: str, pointed: Pointed) -> bool:
        """Whether there is something on a node that was not told yet; what was still holds."""
        if question.rules[0].when.test.is_moment:
            return True
        rule = question.rules[0]
        held = [self._tellings.holds((rule.id, node, device), pointed.held_at) for device in pointed.devices]
        return not all(held)

    def _is_due(self, answer: Answer, node: str, pointed: Pointed) -> bool:
        """Whether to read a node now: at once what is new, more rarely what the rules have not confirmed for long."""
        now = answer.now
        pending = self._pending.setdefault((answer.question, node), _Pending(now, now))
        if not pointed.devices <= pending.devices:
            pending.devices |= pointed.devices
            pending.again = now
        if now < pending.again:
            return False
        rule = self._questions[answer.question].rules[0]
        if now - pending.first > rule.for_s + _PATIENCE_S:
            pending.again = now + _AGAIN_S
        return True

    def _stands_out(self, node: str, pointed: Mapping[str, Pointed], devices: Mapping[str, int]) -> bool:
        """Whether a node differs from most of an attempt that holds it, not the whole attempt from other jobs."""
        return any(_few(assignment, pointed, devices) for assignment in self._tellings.on(node))

    async def _read(self, question: Question, answer: Answer, nodes: Mapping[str, Pointed], at: float | None) -> None:
        now, rule = answer.now, question.rules[0]
        waited_s = max(now - self._pending[answer.question, node].first for node in nodes)
        window_s = answer.span_s + MARGIN_S + 2 * self._settings.poll_s + rule.for_s + min(waited_s, _PATIENCE_S)
        if question.reach is Reach.LONG:
            window_s = max(window_s, LONG_S)
        series = await self._samples(question, nodes, window_s, at)
        if rule.when.test.is_moment:
            for hit_rule, hit in moments(question.rules, series, _time(now)):
                self._tellings.meet(hit_rule, hit, now)
            return
        standings = await self._all_standings(rule, now - window_s, now)
        hits = evaluate((rule,), series, _time(now), standings)
        begin = self._begin(nodes, now)
        quiet_s = GROWTH_QUIET_S if rule.when.test.is_growth else 0.0
        slack_s = quiet_s + 1.5 * self._settings.poll_s
        if begin < now - window_s and _reach_back(hits, now - window_s, slack_s):
            series = await self._samples(question, nodes, now - begin, at)
            standings = await self._all_standings(rule, begin, now)
            start = now - window_s
            while start > begin and _reach_back(hits, start, slack_s):
                start = max(begin, now - 2 * (now - start))
                hits = evaluate((rule,), since(series, start), _time(now), standings) or hits
        for hit in self._anew(rule, hits, series, standings):
            pointed = nodes.get(hit.node or "")
            self._tellings.meet(rule, hit, now if pointed is None else pointed.held_at)

    def _anew(
        self, rule: MetricRule, hits: Sequence[RuleHit], series: Sequence[Series], standings: Standings
    ) -> list[RuleHit]:
        """The hits with those that were told and over already as they came anew, if they did."""
        found = []
        for hit in hits:
            until = self._tellings.held_until(key_of(hit))
            if hit.when.timestamp() > until:
                found.append(hit)
                continue
            later = evaluate((rule,), since(series, until + _A_MOMENT_S), hit.seen_at, standings)
            found += [each for each in later if key_of(each) == key_of(hit)]
        return found

    async def _samples(
        self, question: Question, nodes: Mapping[str, Pointed], window_s: float, at: float | None
    ) -> list[Series]:
        matrices = [
            await self._client.matrix(samples(question.names, label, values, self._settings.naming, window_s), at)
            for label, values in by_label((each.label, each.value) for each in nodes.values()).items()
        ]
        return [each for matrix in matrices for each in series_of(matrix, self._places)]

    async def _all_standings(self, rule: MetricRule, begin: float, now: float) -> Standings:
        if not rule.when.test.asks_peers:
            return {}
        found = {}
        for name in rule.series:
            known = self._standings.get(name)
            if known is None or known[0] > begin:
                known = (begin, standings_of(await self._over(name, begin, now)))
                self._standings[name] = known
            found[name] = known[1]
        return found

    async def _over(self, name: str, begin: float, now: float) -> Matrix:
        """How all series of a name stood at the end of each step."""
        first, last = (int(time // PEERS_STEP_S) * PEERS_STEP_S + PEERS_STEP_S - 1 for time in (begin, now))
        return await self._client.over(standing(name, self._settings.naming), first, last, PEERS_STEP_S)

    def _begin(self, nodes: Iterable[str], now: float) -> float:
        """How far back to look for an onset: before an attempt began is as good as when it began."""
        starts = [each.started_at.timestamp() for node in nodes for each in self._tellings.on(node) if each.started_at]
        return max(min(starts, default=now) - MARGIN_S, now - _LOOKED_BACK_AT_MOST_S)


def moments(
    rules: Sequence[MetricRule], series: Sequence[Series], seen_at: datetime
) -> list[tuple[MetricRule, RuleHit]]:
    """All changes that rules name in these samples, not only the first of each node and device."""
    found = []
    for rule in rules:
        left = list(series)
        for _ in range(_MOMENTS_AT_MOST):
            hits = evaluate((rule,), left, seen_at)
            if not hits:
                break
            found += [(rule, hit) for hit in hits]
            onsets = {(hit.node, hit.device): hit.when.timestamp() for hit in hits}
            further = []
            for each in left:
                is_asked = each.name in rule.series
                onset = onsets.get((each.node, device_of(each.labels, rule.device))) if is_asked else float("-inf")
                if onset is not None:
                    further += since([each], onset)
            left = further
    return found


def _few(assignment: Assignment, pointed: Mapping[str, Pointed], devices: Mapping[str, int]) -> bool:
    """Whether at most half of an attempt is pointed to."""
    nodes = [node for node in assignment.nodes if node in pointed]
    if len(assignment.nodes) >= _FEW_NODES:
        return 2 * len(nodes) <= len(assignment.nodes)
    all_devices = sum(devices.get(node, 0) for node in assignment.nodes)
    return not all_devices or 2 * sum(len(pointed[node].devices) for node in nodes) <= all_devices


def _chunks(nodes: Mapping[str, Pointed]) -> list[dict[str, Pointed]]:
    ordered = list(nodes.items())
    return [dict(ordered[begin : begin + _NODES_AT_ONCE]) for begin in range(0, len(ordered), _NODES_AT_ONCE)]


def _reach_back(hits: Iterable[RuleHit], start: float, slack_s: float) -> bool:
    """Whether one of the hits may have begun before what was read."""
    return any(hit.when.timestamp() <= start + slack_s for hit in hits)


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
