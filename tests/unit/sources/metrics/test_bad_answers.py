"""What a store does wrong is told with a remedy, and stops nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from relance.domain.findings import RuleHit, Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.ports.signals import Signal
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.sources.exchanges import ExchangeSettings
from relance.sources.metrics import MetricSettings, MetricSource
from relance.testing.manual_clocks import ManualClock
from tests.unit.sources.metrics.scripted_stores import NOW, Reply, ScriptedStore, matrix, scripted_store, vector

RULES = load_pack({"metrics.yaml": read_texts()["metrics.yaml"]}).metrics
XID, REMAP, TEMPERATURE = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_GPU_TEMP"
BEGUN = datetime.fromtimestamp(NOW - 300, UTC)
MINE = Assignment(
    attempt=AttemptKey(job=JobKey(cluster="alpha", raw_id="1", submitted_at=BEGUN), restart_count=0),
    owner_uid=1000,
    nodes=("n1", "n2", "n3", "n4"),
    log_paths=(),
    started_at=BEGUN,
)


@pytest.fixture
def store() -> Iterator[ScriptedStore]:
    with scripted_store(XID, REMAP, TEMPERATURE) as made:
        yield made


def source(store: ScriptedStore, clock: ManualClock | None = None, answer_bytes: int = 1 << 20) -> MetricSource:
    exchange = ExchangeSettings(url=store.url, answer_bytes=answer_bytes)
    settings = MetricSettings(exchange=exchange, name="metrics", requests_per_s=1e6)
    made = MetricSource(settings, RULES, clock or ManualClock(datetime.fromtimestamp(NOW, UTC)))
    made.assign([MINE], frozenset())
    return made


def remapped(query: str, over: bool) -> Reply | None:
    """A node of ours has a fault that the store tells of, whatever else it does."""
    if f'__name__=~"{REMAP}' in query or (query.endswith("]") and REMAP in query):
        labels = {"__name__": REMAP, "Hostname": "n2", "gpu": "3"}
        return matrix((labels, [(NOW - 60, "0"), (NOW - 15, "1"), (NOW, "1")]))
    if REMAP in query:
        tag = query.split(f"{REMAP}{{}} == 1")[1].split('"relance_ask", "')[1].split('"', maxsplit=1)[0]
        labels = {"Hostname": "n2", "gpu": "3", "relance_ask": tag}
        return matrix((labels, [(NOW, "1")])) if over else vector((labels, "1"))
    return None


@pytest.mark.parametrize(
    ("reply", "sight", "said"),
    [
        (Reply(body=b"<!DOCTYPE html><html>Sign in</html>"), Sight.MISSING, "HTML"),
        (Reply(body=b'{"status": "succ'), Sight.MISSING, "no JSON"),
        (Reply(body=b'{"hello": "world"}'), Sight.MISSING, "no answer of the query API"),
        (Reply(body=b'{"status":"success","data":{"resultType":"streams","result":[]}}'), Sight.MISSING, "streams"),
        (Reply(body=b'{"status":"success","data":{"resultType":"vector","result":[7]}}'), Sight.MISSING, "a series"),
        (Reply(body=b'{"status":"error","error":"invalid"}', status=400), Sight.REFUSED, "HTTP 400"),
        (Reply(body=b'{"status":"error","errorType":"422"}', status=422), Sight.REFUSED, "HTTP 422"),
        (Reply(body=b"no", status=401), Sight.REFUSED, "token"),
        (Reply(body=b"down", status=503), Sight.MISSING, "HTTP 503"),
        (Reply(body=b"slow down", status=429, headers={"Retry-After": "40"}), Sight.LAGGING, "HTTP 429"),
        (Reply(body=b"x" * (1 << 21)), Sight.MISSING, "more than"),
        (Reply(body=b"", status=302, headers={"Location": "http://127.0.0.1:1/"}), Sight.REFUSED, "elsewhere"),
    ],
)
async def test_an_answer_of_no_use_is_told_and_raises_nothing(
    store: ScriptedStore, reply: Reply, sight: Sight, said: str
) -> None:
    store.answer = lambda _query, _over: reply
    made = source(store)
    await made.look()
    [entry] = made.sight()
    assert entry.sight is sight
    assert said in entry.note
    assert entry.note.startswith("since 2026-01-01 10:00:00 UTC: 127.0.0.1 ")
    taken = made.take(MINE.attempt)
    assert taken.signals == ()
    assert taken.coverage == (entry,)
    await made.close()


async def test_a_store_that_is_busy_is_left_alone_as_long_as_it_asks(store: ScriptedStore) -> None:
    clock = ManualClock(datetime.fromtimestamp(NOW, UTC))
    made = source(store, clock)
    store.answer = lambda _query, _over: Reply(body=b"", status=429, headers={"Retry-After": "40"})
    await made.look()
    asked = len(store.asked)
    begun = clock.monotonic()
    store.answer = lambda _query, _over: None
    clock.advance(40.0)
    await made.look()
    assert clock.monotonic() - begun == pytest.approx(40.0)
    assert len(store.asked) > asked
    assert made.sight()[0].sight is Sight.SEEN
    await made.close()


async def test_one_question_that_is_refused_stops_no_other(store: ScriptedStore) -> None:
    def answer(query: str, over: bool) -> Reply | None:
        if "changes(" in query:
            return Reply(body=b'{"status":"error","error":"too many samples"}', status=422)
        return remapped(query, over)

    store.answer = answer
    clock = ManualClock(datetime.fromtimestamp(NOW, UTC))
    made = source(store, clock)
    told: list[Signal] = []
    for _ in range(6):
        await made.look()
        told += made.take(MINE.attempt).signals
        clock.advance(15.0)
    assert [hit.rule for hit in told if isinstance(hit, RuleHit)] == ["metric-remap-failure"]
    [entry] = made.sight()
    assert entry.sight is Sight.SEEN
    assert "1 of" in entry.note
    assert "too many samples" in entry.note
    await made.close()


async def test_one_answer_that_is_too_long_stops_no_other(store: ScriptedStore) -> None:
    def answer(query: str, over: bool) -> Reply | None:
        if "changes(" in query:
            return vector(*(({"Hostname": f"n{number}"}, "1") for number in range(40_000)))
        return remapped(query, over)

    store.answer = answer
    clock = ManualClock(datetime.fromtimestamp(NOW, UTC))
    made = source(store, clock)
    told: list[Signal] = []
    for _ in range(6):
        await made.look()
        told += made.take(MINE.attempt).signals
        clock.advance(15.0)
    assert [hit.rule for hit in told if isinstance(hit, RuleHit)] == ["metric-remap-failure"]
    assert "more than 1048576 bytes" in made.sight()[0].note
    await made.close()


async def test_labels_that_lack_and_series_that_come_twice_make_no_trouble(store: ScriptedStore) -> None:
    def answer(query: str, over: bool) -> Reply | None:
        if query.endswith("]") and XID in query:
            samples = [(NOW - 60, "0"), (NOW - 30, "NaN"), (NOW - 15, "79"), (NOW + 900, "79")]
            labels = {"__name__": XID, "Hostname": "n2", "gpu": "3"}
            return matrix((labels, samples), (labels, samples), ({}, samples), ({"__name__": XID, "gpu": "1"}, samples))
        if "changes(" in query:
            tag = query.split('"relance_ask", "')[1].split('"', maxsplit=1)[0]
            odd = {"Hostname": "n2", "gpu": "3", "relance_ask": tag}
            return vector((odd, "1"), (odd, "1"), ({"relance_ask": tag}, "1"), ({}, "NaN"), ({"relance_ask": "x"}, "1"))
        return None

    store.answer = answer
    made = source(store)
    await made.look()
    told = [hit for hit in made.take(MINE.attempt).signals if isinstance(hit, RuleHit)]
    assert [(hit.rule, hit.node, hit.device) for hit in told] == [("metric-xid-off-bus", "n2", "gpu3")]
    assert made.sight()[0].sight is Sight.SEEN
    await made.close()


async def test_what_a_store_warns_of_is_told(store: ScriptedStore) -> None:
    store.answer = lambda query, _over: (
        vector(({}, "1"), warnings=["a shard is away"]) if "timestamp" in query else None
    )
    made = source(store)
    await made.look()
    assert "a shard is away" in made.sight()[0].note
    await made.close()


async def test_a_thousand_jobs_are_not_more_questions_than_one(store: ScriptedStore) -> None:
    one = source(store)
    await one.look()
    asked_for_one = len(store.asked)
    many = source(store)
    jobs = [
        Assignment(
            attempt=AttemptKey(job=JobKey(cluster="alpha", raw_id=str(number), submitted_at=BEGUN), restart_count=0),
            owner_uid=1000,
            nodes=(f"m{number}",),
            log_paths=(),
            started_at=BEGUN,
        )
        for number in range(1000)
    ]
    many.assign(jobs, frozenset())
    await many.look()
    assert len(store.asked) - asked_for_one == asked_for_one
    assert asked_for_one < 20
    await one.close()
    await many.close()


async def test_what_could_not_be_read_is_asked_for_again_over_the_same_time(store: ScriptedStore) -> None:
    clock = ManualClock(datetime.fromtimestamp(NOW, UTC))
    made = source(store, clock)

    def answer(query: str, over: bool) -> Reply | None:
        return Reply(body=b"down", status=503) if query.endswith("]") else remapped(query, over)

    store.answer = answer
    await made.look()
    assert made.sight()[0].sight is Sight.MISSING
    changes = [query for query in store.asked if "changes(" in query]
    store.asked.clear()
    store.answer = remapped
    clock.advance(15.0)
    await made.look()
    assert [query for query in store.asked if "changes(" in query] == changes
    told = [hit.rule for hit in made.take(MINE.attempt).signals if isinstance(hit, RuleHit)]
    assert told == ["metric-remap-failure"]
    await made.close()
