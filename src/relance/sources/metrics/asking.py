"""One round of questions to a store for a whole cluster, in few queries, and the nodes that they point to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from relance.rules.metric_queries import ASK_LABEL, LONG_S, Question, Reach, expression
from relance.sources.exchanges import StoreAnswerError, StoreAwayError, StoreRefusedError
from relance.sources.metrics.clients import Labels, MetricClient
from relance.sources.metrics.places import Places
from relance.sources.metrics.settings import MetricSettings
from relance.sources.metrics.shapes import device_of

FIRST_LOOK_S = 600.0
"""So much of the past is looked at by the first look."""
_LOOKED_BACK_AT_MOST_S = 3600.0
_LONG_EVERY_S = 60.0
_TOGETHER = 8
"""Questions in one query: each costs the store the same, alone or not."""
_AWAY_AT_MOST = 3
"""So many queries in a row without an answer, and the store is away."""
MARGIN_S = 120.0
"""Samples come up to a minute apart, and a change needs the one before it."""


@dataclass(slots=True)
class Pointed:
    """A node that a question points to: how the store knows it, which devices, and when it held last."""

    label: str
    value: str
    devices: set[str | None] = field(default_factory=set)
    held_at: float = 0.0


@dataclass(slots=True)
class Answer:
    """What a question points to, looking back over `span_s` until `now`."""

    question: int
    span_s: float
    now: float
    nodes: dict[str, Pointed] = field(default_factory=dict)


@dataclass(slots=True)
class _Batch:
    numbers: tuple[int, ...]
    reach: Reach
    looked_at: float
    asked_at: float | None = None
    """When it was asked in the present round: it counts once what it points to was read, too."""


class Asker:
    """Asks all questions that the store can answer, and remembers up to when each was."""

    def __init__(
        self, client: MetricClient, questions: Sequence[Question], settings: MetricSettings, places: Places
    ) -> None:
        self._client = client
        self._questions = questions
        self._settings = settings
        self._places = places
        self._names: frozenset[str] = frozenset()
        self._batches: list[_Batch] = []
        self.refused: dict[int, str] = {}
        """Questions that the store has not answered lately, and why."""

    @property
    def asked(self) -> int:
        """How many questions there are."""
        return sum(len(batch.numbers) for batch in self._batches)

    def know(self, names: frozenset[str], now: float) -> None:
        """The names of the series that the store has now."""
        if names == self._names and self._batches:
            return
        self._names = names
        looked_at = {number: batch.looked_at for batch in self._batches for number in batch.numbers}
        possible = [number for number, each in enumerate(self._questions) if each.is_possible(names)]
        self.refused = {number: why for number, why in self.refused.items() if number in set(possible)}
        self._batches = []
        first = now - FIRST_LOOK_S
        for reach in Reach:
            mine = [number for number in possible if self._questions[number].reach is reach]
            mine.sort(key=lambda number: looked_at.get(number, first))
            for begin in range(0, len(mine), _TOGETHER):
                numbers = tuple(mine[begin : begin + _TOGETHER])
                self._batches.append(_Batch(numbers, reach, min(looked_at.get(each, first) for each in numbers)))

    async def ask(self, now: float, at: float | None, nodes: Mapping[str, object]) -> list[Answer]:
        """Ask what is due, and give what points to one of these nodes. Raises StoreAwayError, StoreBusyError."""
        answers: list[Answer] = []
        away = 0
        for batch in self._batches:
            batch.asked_at = None
        for batch in list(self._batches):
            if batch.reach is Reach.LONG and now - batch.looked_at < _LONG_EVERY_S - self._settings.poll_s / 2:
                continue
            try:
                answers += await self._ask(batch, now, at, nodes)
                away = 0
            except (StoreRefusedError, StoreAnswerError, StoreAwayError) as error:
                away += isinstance(error, StoreAwayError)
                if away >= _AWAY_AT_MOST:
                    raise
                self._divide(batch, now, error.told)
        return answers

    def settle(self, unread: Collection[int]) -> None:
        """What was asked has been read, but for some questions: these are asked again over the same time."""
        for batch in self._batches:
            if batch.asked_at is not None and not set(batch.numbers) & set(unread):
                batch.looked_at = batch.asked_at

    async def _ask(self, batch: _Batch, now: float, at: float | None, nodes: Mapping[str, object]) -> list[Answer]:
        poll_s = self._settings.poll_s
        span_s = min(max(now - batch.looked_at, 0.0), _LOOKED_BACK_AT_MOST_S)
        window_s = span_s + max(MARGIN_S, 2 * poll_s)
        if batch.reach is Reach.LONG:
            window_s = max(LONG_S, window_s)
        naming = self._settings.naming
        query = " or ".join(
            expression(self._questions[number], number, self._names, naming, window_s, poll_s)
            for number in batch.numbers
        )
        looks_back = batch.reach is Reach.NOW and span_s > 2.5 * poll_s
        held: Iterable[float]
        if looks_back:
            matrix = await self._client.over(query, now - span_s, now, poll_s)
            rows, held = matrix.labels, [times[-1] if times else now for times in matrix.times]
        else:
            vector = await self._client.vector(query, at)
            rows, held = vector.labels, [now] * len(vector.labels)
        spans_s = span_s if looks_back or batch.reach is not Reach.NOW else 0.0
        answers = {number: Answer(number, spans_s, now) for number in batch.numbers}
        for labels, held_at in zip(rows, held, strict=True):
            self._point(answers, labels, held_at, nodes)
        batch.asked_at = now
        for number in batch.numbers:
            self.refused.pop(number, None)
        return list(answers.values())

    def _point(
        self, answers: Mapping[int, Answer], labels: Labels, held_at: float, nodes: Mapping[str, object]
    ) -> None:
        number = labels.get(ASK_LABEL, "").partition(":")[0]
        answer = answers.get(int(number)) if number.isdigit() else None
        place = self._places.place(labels)
        if answer is None or place is None or place.node not in nodes:
            return
        pointed = answer.nodes.get(place.node)
        if pointed is None:
            pointed = answer.nodes[place.node] = Pointed(place.label, place.value)
        pointed.devices.add(device_of(labels, self._questions[answer.question].rules[0].device))
        pointed.held_at = max(pointed.held_at, held_at)

    def _divide(self, batch: _Batch, now: float, why: str) -> None:
        """Ask for less the next time: fewer questions at once, then less of the past."""
        if len(batch.numbers) > 1:
            middle = len(batch.numbers) // 2
            at = self._batches.index(batch)
            self._batches[at : at + 1] = [
                _Batch(batch.numbers[:middle], batch.reach, batch.looked_at),
                _Batch(batch.numbers[middle:], batch.reach, batch.looked_at),
            ]
            return
        batch.looked_at = max(batch.looked_at, now - max((now - batch.looked_at) / 2, self._settings.poll_s))
        self.refused[batch.numbers[0]] = why
