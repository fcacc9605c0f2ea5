"""Numbers that are none, clocks that are off, and what nobody thought of: told, and nothing else stops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from relance.domain.findings import Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.sources.exchanges import ExchangeSettings
from relance.sources.metrics import MetricSettings, MetricSource, ProgressSeries
from relance.testing.manual_clocks import ManualClock
from tests.unit.sources.metrics.scripted_stores import NOW, Reply, ScriptedStore, matrix, scripted_store, vector

RULES = load_pack({"metrics.yaml": read_texts()["metrics.yaml"]}).metrics
NAMES = (
    "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE", "node_boot_time_seconds", "up", "train_step",
)  # fmt: skip
BEGUN = datetime.fromtimestamp(NOW - 300, UTC)
STRANGE = ["NaN", "Infinity", "-Infinity", "1e308", "-1", "0", "99999999999999999999", "9" * 400]


def job(raw_id: str) -> Assignment:
    return Assignment(
        attempt=AttemptKey(job=JobKey(cluster="alpha", raw_id=raw_id, submitted_at=BEGUN), restart_count=0),
        owner_uid=1000,
        nodes=("n1", "n2", "n3", "n4"),
        log_paths=(),
        started_at=BEGUN,
    )


MINE = job("1")


@pytest.fixture
def store() -> Iterator[ScriptedStore]:
    with scripted_store(*NAMES) as made:
        yield made


def source(store: ScriptedStore, clock: ManualClock, job_value: str = "{raw_id}") -> MetricSource:
    settings = MetricSettings(
        exchange=ExchangeSettings(url=store.url),
        name="metrics",
        requests_per_s=1e6,
        progress=ProgressSeries(step="train_step", job_value=job_value),
    )
    made = MetricSource(settings, RULES, clock)
    made.assign([MINE], frozenset({MINE.attempt}))
    return made


def raw(kind: str, row: str) -> Reply:
    labels = '{"__name__":"DCGM_FI_DEV_GPU_UTIL","Hostname":"n1","gpu":"0","job_id":"1","relance_ask":"%s"}'
    rows = ",".join(f'{{"metric":{labels % ask},{row}}}' for ask in ("count", "at", "value", "util:", "power", "0:0"))
    return Reply(body=f'{{"status":"success","data":{{"resultType":"{kind}","result":[{rows}]}}}}'.encode())


@pytest.mark.parametrize("value", STRANGE)
@pytest.mark.parametrize("time", ["1767261600", "NaN", "1e308", "-1"])
async def test_numbers_and_times_that_cannot_be_end_nothing(store: ScriptedStore, value: str, time: str) -> None:
    def answer(query: str, over: bool) -> Reply | None:
        if query.startswith(("/api", "time()")):
            return None
        if over or query.endswith("]"):
            return raw("matrix", f'"values":[[{time},"{value}"],[{time},"{value}"]]')
        return raw("vector", f'"value":[{time},"{value}"]')

    store.answer = answer
    clock = ManualClock(datetime.fromtimestamp(NOW, UTC))
    made = source(store, clock)
    for _ in range(3):
        await made.look()
        made.take(MINE.attempt)
        clock.advance(60.0)
    assert made.sight()[0].source == "metrics"
    await made.close()


@pytest.mark.parametrize("time", STRANGE)
async def test_a_store_that_does_not_know_what_time_it_is_is_told(store: ScriptedStore, time: str) -> None:
    store.answer = lambda query, _over: (
        Reply(
            body=b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%s,"1"]}]}}'
            % time.encode()
        )
        if query == "time()"
        else None
    )
    made = source(store, ManualClock(datetime.fromtimestamp(NOW, UTC)))
    await made.look()
    [entry] = made.sight()
    assert entry.sight is Sight.MISSING
    assert made.take(MINE.attempt).signals == ()
    await made.close()


@pytest.mark.parametrize(("ahead_s", "sight"), [(-7200, "MISSING"), (7200, "MISSING"), (-200, "SEEN"), (200, "SEEN")])
async def test_a_store_whose_clock_is_hours_off_is_told_and_not_used(
    store: ScriptedStore, ahead_s: int, sight: str
) -> None:  # fmt: skip
    clock = ManualClock(datetime.fromtimestamp(NOW, UTC) - timedelta(seconds=ahead_s))
    made = source(store, clock)
    await made.look()
    [entry] = made.sight()
    assert entry.sight is Sight[sight]
    assert ("time servers" in entry.note) == (sight == "MISSING")
    await made.close()


async def test_what_nobody_thought_of_is_told_and_the_next_look_is_made(
    store: ScriptedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(datetime.fromtimestamp(NOW, UTC))
    made = source(store, clock)

    async def fails() -> tuple[str, ...]:
        raise KeyError("no such thing")

    with monkeypatch.context() as patched:
        patched.setattr(made, "_round", fails)
        await made.look()
    [entry] = made.sight()
    assert (entry.sight, "KeyError" in entry.note) == (Sight.MISSING, True)
    clock.advance(60.0)
    await made.look()
    assert made.sight()[0].sight is Sight.SEEN
    await made.close()


@pytest.mark.parametrize("job_value", ["{raw_id}", "{raw_id}-{x}", "{{raw_id}}", "{0}{raw_id}", "{raw_id.__class__}{"])
async def test_a_template_of_jobs_is_text_and_nothing_else(store: ScriptedStore, job_value: str) -> None:
    clock = ManualClock(datetime.fromtimestamp(NOW, UTC))
    made = source(store, clock, job_value)
    value = job_value.replace("{raw_id}", "1")
    store.answer = lambda query, _over: (
        vector(
            ({"job_id": value, "relance_ask": "value"}, "7"),
            ({"job_id": value, "relance_ask": "at"}, str(NOW)),
        )
        if "train_step" in query
        else None
    )
    await made.look()
    assert [getattr(each, "step", None) for each in made.take(MINE.attempt).signals] == [7]
    await made.close()


async def test_labels_that_are_missing_huge_or_hostile_end_nothing(store: ScriptedStore) -> None:
    labels: list[dict[str, str]] = [
        {},
        {"Hostname": ""},
        {"Hostname": "n1\x00", "gpu": "\x1b[2J"},
        {"Hostname": "n1", **{f"label_{number}": "x" * 50 for number in range(2000)}},
        {"Hostname": "\ud800", "gpu": "0"},
        {"instance": ":9400"},
        {"instance": "[fe80::1]:9400"},
    ]

    def answer(query: str, over: bool) -> Reply | None:
        if query.startswith(("/api", "time()")):
            return None
        if over or query.endswith("]"):
            return matrix(*[({"__name__": NAMES[0], **each}, [(NOW - 30, "0"), (NOW, "79")]) for each in labels])
        return vector(
            *[({"relance_ask": ask, **each}, "79") for each in labels for ask in ("0:0", "at", "count", "7:")]
        )

    store.answer = answer
    clock = ManualClock(datetime.fromtimestamp(NOW, UTC))
    made = source(store, clock)
    for _ in range(3):
        await made.look()
        told = made.take(MINE.attempt)
        assert {getattr(each, "node", "n1") for each in told.signals} <= {"n1", None}
        json.dumps([str(each) for each in told.signals])
        clock.advance(60.0)
    assert made.sight()[0].sight is Sight.SEEN
    await made.close()
