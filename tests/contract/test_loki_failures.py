"""What a Loki may do that no server can be asked to do at will: on the double alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from relance.domain.findings import Sight
from relance.ports.sources import Reading
from relance.sources.exchanges import (
    Exchange,
    ExchangeSettings,
    StoreAnswerError,
    StoreAwayError,
    StoreBusyError,
    StoreError,
    StoreRefusedError,
    StoreTooMuchError,
)
from relance.sources.loki.stores import LokiStore
from relance.sources.stores.backs import Selection
from relance.sources.stores.sources import StoreSource
from relance.testing.source_contract import new_bytes, read_all
from tests.components.loki import Loki, loki_double
from tests.components.store_stages import StoreStage

QUERY = "/loki/api/v1/query_range"
NO_STREAMS = '{"status": "success", "data": {"resultType": "matrix", "result": []}}'
FAILURES: list[tuple[dict[str, object], type[StoreError]]] = [
    ({"status": 429, "body": "too many outstanding requests", "headers": {"Retry-After": "7"}}, StoreBusyError),
    ({"status": 500, "body": "context deadline exceeded"}, StoreAwayError),
    ({"status": 502, "body": "<html>Bad Gateway</html>"}, StoreAwayError),
    ({"half": True}, StoreAwayError),
    ({"delay_s": 2.0, "status": 200}, StoreAwayError),
    ({"status": 200, "body": "<html>log in</html>"}, StoreAnswerError),
    (
        {"status": 200, "body": NO_STREAMS},
        StoreAnswerError,
    ),
    ({"status": 200, "body": '{"data": {"resultType": "streams", "result": [{"stream": 7}]}}'}, StoreAnswerError),
    ({"status": 401, "body": "no org id"}, StoreRefusedError),
    ({"status": 413, "body": "too large"}, StoreTooMuchError),
    ({"status": 400, "body": "the query would read too many bytes (query: 2GB, limit: 1GB)"}, StoreTooMuchError),
]


@pytest.fixture(scope="module")
def loki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loki]:
    with loki_double(tmp_path_factory.mktemp("loki")) as double:
        yield double


@pytest_asyncio.fixture
async def stage(loki: Loki) -> AsyncIterator[StoreStage]:
    made = StoreStage(lambda: new_store(loki), loki.push)
    yield made
    await made.close()
    loki.fail()


def new_store(loki: Loki, *, timeout_s: float = 20.0, tenant: str = "") -> LokiStore:
    headers = {"X-Scope-OrgID": tenant} if tenant else {}
    return LokiStore(Exchange(ExchangeSettings(url=loki.url, timeout_s=timeout_s, headers=headers)))


def of(stage: StoreStage) -> Selection:
    return Selection(labels={"job_id": (stage.mark,)})


@pytest.mark.parametrize(("fault", "kind"), FAILURES, ids=lambda value: str(value)[:40])
async def test_each_failure_is_told_for_what_it_is(
    loki: Loki, stage: StoreStage, fault: dict[str, object], kind: type[StoreError]
) -> None:
    store, other = new_store(loki, timeout_s=1.0) if "delay_s" in fault else new_store(loki), new_store(loki)
    loki.fail({"path": QUERY, "times": 1, **fault})
    now = stage.next_ns()
    with pytest.raises(StoreError) as caught:
        await store.page(of(stage), now - 10**9, now, 10)
    assert type(caught.value) is kind
    if isinstance(caught.value, StoreBusyError):
        assert caught.value.again_in_s == 7
    assert (await other.page(of(stage), now - 10**9, now, 10)).is_whole
    for each in (store, other):
        await each.close()


async def test_after_any_failure_each_line_comes_once(loki: Loki, stage: StoreStage) -> None:
    source, job = await stage.open(), stage.assignment()
    source.assign([job], {})
    text, wanted = b"", b""
    for number, (fault, _) in enumerate(FAILURES):
        if "delay_s" in fault or "headers" in fault:
            continue
        lines = [b"line %d of %d\n" % (each, number) for each in range(20)]
        await stage.write(job, lines)
        wanted += b"".join(lines)
        loki.fail({"path": QUERY, "times": 1, **fault})
        text += (await read_until(source, stage, len(wanted) - len(text)))[0]
    assert text == wanted
    assert source.sight()[0].sight is Sight.SEEN


async def read_until(source: StoreSource, stage: StoreStage, size: int) -> tuple[bytes, Reading]:
    job, text = stage.assignment(), b""
    async with asyncio.timeout(60):
        while True:
            reading = await source.read(job.attempt)
            text += new_bytes(reading.blocks)
            if len(text) >= size and source.sight()[0].sight is Sight.SEEN:
                return text, reading
            await stage.pass_time(0.1)


async def test_a_smaller_limit_of_entries_is_learned(tmp_path: Path) -> None:
    with loki_double(tmp_path, "--entries", "30") as loki:
        stage = StoreStage(lambda: new_store(loki), loki.push)
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        lines = [b"line %d\n" % number for number in range(200)]
        await stage.write(job, lines)
        text, _ = await read_all(stage, source, job)
        assert text == b"".join(lines)
        await stage.close()


async def test_tenants_see_their_own_lines_alone(tmp_path: Path) -> None:
    with loki_double(tmp_path, "--tenants") as loki:
        store, nobody, other = (new_store(loki, tenant=tenant) for tenant in ("a", "", "b"))
        stage = StoreStage(lambda: store, loki.push)
        at = stage.next_ns()
        body = {"streams": [{"stream": {"job_id": stage.mark}, "values": [[str(at), "of a"]]}]}
        loki.ask("POST", "/loki/api/v1/push", json=body, headers={"X-Scope-OrgID": "a"})
        assert len((await store.page(of(stage), at, at + 1, 10)).entries) == 1
        assert (await other.page(of(stage), at, at + 1, 10)).entries == ()
        with pytest.raises(StoreRefusedError, match="no org id") as caught:
            await nobody.page(of(stage), at, at + 1, 10)
        assert "tenant" in caught.value.remedy
        for each in (store, nobody, other):
            await each.close()


async def test_many_jobs_are_asked_for_together(loki: Loki, stage: StoreStage) -> None:
    source = await stage.open()
    jobs = [stage.assignment(number) for number in range(300)]
    source.assign(jobs, {})
    await stage.write(jobs[7], [b"one\n"])
    assert (await read_all(stage, source, jobs[7]))[0] == b"one\n"
    before = loki.asked()
    await stage.pass_time(0.25)
    await stage.pass_time(0.25)
    assert loki.asked() - before <= 12


async def test_the_store_is_told_to_be_away_and_back(loki: Loki, stage: StoreStage) -> None:
    source, job = await stage.open(), stage.assignment()
    source.assign([job], {})
    await read_all(stage, source, job)
    loki.fail({"path": QUERY, "times": 2, "status": 503, "body": "not ready"})
    async with asyncio.timeout(30):
        while source.sight()[0].sight is Sight.SEEN:
            await stage.pass_time(0.02)
        assert "503" in source.sight()[0].note
        while source.sight()[0].sight is not Sight.SEEN:
            await stage.pass_time(0.02)
