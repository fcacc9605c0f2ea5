"""What a store is asked by queries names what the rules name over all samples: the same rule, node and device."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import pytest

from relance.domain.findings import RuleHit
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.ports.clocks import SystemClock
from relance.rules.formats import Pack
from relance.rules.loading import load_pack
from relance.rules.metric_entries import samples_of
from relance.rules.metric_queries import questions
from relance.rules.metric_rules import MetricRule, Point, Series
from relance.rules.metric_rules import Test as Asked
from relance.rules.metrics import evaluate
from relance.rules.pack import read_texts
from relance.sources.exchanges import ExchangeSettings
from relance.sources.metrics import MetricSettings, MetricSource
from relance.sources.metrics.asking import FIRST_LOOK_S
from tests.components.metric_stores import KINDS, MetricStore, Written, metric_store

START = 1_767_225_600.0
STEP_S = 15.0
STEPS = 40
Named = set[tuple[str, str | None, str | None]]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricStore]:
    with metric_store(request.param, tmp_path_factory.mktemp("store")) as running:
        yield running


@cache
def pack() -> Pack:
    return load_pack({"metrics.yaml": read_texts()["metrics.yaml"]})


def asked_rules() -> list[MetricRule]:
    """Rules that are asked of all nodes."""
    asked = {rule.id for question in questions(pack().metrics) for rule in question.rules}
    return [rule for rule in pack().metrics if rule.id in asked or rule.when.test is Asked.VANISHES]


def assignment(nodes: Iterable[str]) -> Assignment:
    """An attempt on these nodes, and on many more that have no metrics: what few show is then never what most do."""
    at = datetime.fromtimestamp(START, UTC)
    key = AttemptKey(job=JobKey(cluster="alpha", raw_id="1", submitted_at=at), restart_count=0)
    everywhere = (*sorted(set(nodes)), *(f"other{number}" for number in range(100)))
    return Assignment(attempt=key, owner_uid=0, nodes=everywhere, log_paths=(), started_at=at)


def scraped_together(rule: MetricRule, series: Sequence[Series]) -> list[Series]:
    """The series with those beside the rule's own given at each time that these are, as an exporter does."""
    times = sorted({point.at for each in series if each.name in rule.series for point in each.points})
    found = []
    for each in series:
        points = {point.at: point for point in each.points}
        if each.name not in rule.series:
            points |= {at: each.points[-1]._replace(at=at) for at in times if at > each.points[-1].at}
        found.append(replace(each, points=tuple(sorted(points.values()))))
    return found


def lasts_s(series: Iterable[Series]) -> float:
    """How far back one would have to look at the end to see all of it."""
    times = [point.at for each in series for point in each.points]
    return max(times) - min(times)


def written(series: Iterable[Series], **labels: str) -> list[Written]:
    return [
        Written(
            name=each.name,
            labels={**each.labels, "Hostname": each.node or "", **labels},
            samples=[(point.at, point.value) for point in each.points],
        )
        for each in series
    ]


def source(store: MetricStore, now: list[float], rules: Sequence[MetricRule], **match: str) -> MetricSource:
    settings = MetricSettings(exchange=ExchangeSettings(url=store.url), match=match, requests_per_s=1e6, poll_s=STEP_S)
    return MetricSource(settings, rules, SystemClock(), store_time=lambda: now[0])


def named(hits: Iterable[object]) -> Named:
    return {(hit.rule, hit.node, hit.device) for hit in hits if isinstance(hit, RuleHit)}


async def looked(made: MetricSource, attempt: Assignment) -> Named:
    await made.look()
    told = made.take(attempt.attempt)
    assert made.sight()[0].note == ""
    return named(told.signals)


async def test_the_examples_of_all_rules_are_named_as_they_are_by_the_rules_alone(store: MetricStore) -> None:
    cases = [
        (f"{rule.id}-{kind}-{number}", rule, scraped_together(rule, samples_of(text, rule)))
        for rule in asked_rules()
        for kind, texts in (("hit", rule.hit), ("miss", rule.miss))
        for number, text in enumerate(texts)
    ]
    cases = [each for each in cases if lasts_s(each[2]) <= FIRST_LOOK_S]
    assert len(cases) > 250
    store.write([each for case, _, series in cases for each in written(series, case=case)])
    wrong = {}
    for case, rule, series in cases:
        # at midnight itself VictoriaMetrics does not find the only sample of a day
        end = max(point.at for each in series for point in each.points) + 1.0
        nodes = {each.node for each in series if each.node}
        made = source(store, [end], [rule], case=case)
        attempt = assignment(nodes)
        made.assign([attempt], frozenset())
        told = await looked(made, attempt)
        await made.close()
        expected = named(evaluate([rule], series, datetime.fromtimestamp(end, UTC)))
        if told != expected:
            wrong[case] = (told, expected)
    assert not wrong, wrong


def generated(seed: int, rules: Sequence[MetricRule]) -> list[Series]:
    """Samples of many nodes and devices, in which something is wrong here and there."""
    chance = random.Random(seed)
    names = sorted({name for rule in rules for name in rule.names})
    wanted = {limit for rule in rules for limit in rule.when.limits}
    found = []
    for name in names:
        usual = chance.choice([0.0, 1.0, 50.0, 100.0, 5000.0])
        labels = dict(next((rule.where for rule in rules if name in rule.series), {}))
        limits = sorted({limit for rule in rules if name in rule.names for limit in rule.when.limits} or wanted)
        for node in range(6):
            for device in range(3):
                samples = _samples(chance, usual, limits)
                points = tuple(Point(START + STEP_S * step, value, "", 0) for step, value in samples)
                found.append(Series(name=name, node=f"n{node}", labels={**labels, "gpu": str(device)}, points=points))
    return found


def _samples(chance: random.Random, usual: float, limits: Sequence[float]) -> list[tuple[int, float]]:
    kind = chance.choice(["calm", "calm", "calm", "episode", "counter", "gap", "number", "back"])
    begin, length = chance.randrange(STEPS), chance.randrange(1, STEPS)
    odd = chance.choice([*limits, 0.0, usual * 3 + 1, usual / 4, usual + max(limits, default=1.0) + 1])
    samples = [(step, usual) for step in range(STEPS)]
    if kind == "episode":
        samples = [(step, odd if begin <= step < begin + length else usual) for step, _ in samples]
    elif kind == "counter":
        grows = chance.choice([1.0, 40.0, 3000.0])
        samples = [(step, usual + grows * max(step - begin, 0)) for step, _ in samples]
    elif kind == "gap":
        samples = [each for each in samples if not begin <= each[0] < begin + length] or samples
    elif kind == "number":
        samples = [(step, float("nan") if step == begin else value) for step, value in samples]
    elif kind == "back":
        samples = [(step, (usual + step) * (0.1 if step >= begin else 1.0)) for step, _ in samples]
    return samples


@pytest.mark.parametrize("seed", range(4))
async def test_generated_samples_are_named_as_they_are_by_the_rules_alone(store: MetricStore, seed: int) -> None:
    rules = [rule for rule in asked_rules() if rule.when.test is not Asked.VANISHES]
    random.Random(seed).shuffle(rules)
    rules = rules[:25]
    series = generated(seed, rules)
    store.write(written(series))
    now = [START + STEP_S * (STEPS - 1)]
    made = source(store, now, rules)
    attempt = assignment({each.node for each in series if each.node})
    made.assign([attempt], frozenset())
    told = await looked(made, attempt)
    await made.close()
    expected = named(evaluate(rules, series, datetime.fromtimestamp(now[0], UTC)))
    assert len(expected) > 10
    assert told == expected


async def test_looks_in_between_name_the_same_as_one_look_at_the_end(store: MetricStore) -> None:
    rules = [rule for rule in asked_rules() if rule.when.test is not Asked.VANISHES and not rule.when.test.asks_peers]
    rules = [replace(rule, for_s=min(rule.for_s, 60.0)) for rule in rules[:30]]
    series = generated(7, rules)
    store.write(written(series))
    now = [START]
    made = source(store, now, rules)
    attempt = assignment({each.node for each in series if each.node})
    made.assign([attempt], frozenset())
    told: Named = set()
    for step in range(STEPS + 4):  # what was pointed to in vain is read again a little later
        now[0] = START + STEP_S * step
        made.hurry()
        told |= await looked(made, attempt)
    await made.close()
    assert told == named(evaluate(rules, series, datetime.fromtimestamp(now[0], UTC)))
