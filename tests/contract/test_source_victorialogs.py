"""VictoriaLogs as a log store: on the double, or on the real one that `RELANCE_TEST_VICTORIALOGS_URL` names."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

import pytest
import pytest_asyncio

from relance.domain.faults import Scope
from relance.ports.clocks import SystemClock
from relance.rules.pushdown import prefilter
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
from relance.sources.stores.backs import Selection
from relance.sources.victorialogs.stores import VictoriaLogsStore
from relance.testing.log_store_contract import LogStoreContract, everything, texts
from relance.testing.source_contract import SourceContract
from tests.components.store_stages import StoreStage
from tests.components.victorialogs import REAL_URL, VictoriaLogs, victorialogs_double
from tests.unit.rules.packs import packaged

NS = 1_000_000_000
VISIBLE_LOOKS = 300
"""A tenth of a second apart: the real one shows lines after about a second."""
needs_the_double = pytest.mark.skipif(bool(REAL_URL), reason="only the double fails as it is told")


class Stage:
    """A VictoriaLogs in which this test's lines are told by names of their own."""

    keeps_repeats = True

    def __init__(self, logs: VictoriaLogs) -> None:
        self.logs = logs
        self.store = VictoriaLogsStore(Exchange(ExchangeSettings(url=logs.url, headers=logs.headers, timeout_s=5.0)))
        self._pushed: dict[str, int] = {}
        self._base_ns = int(SystemClock().now().timestamp() - 300) * NS

    def name(self) -> str:
        return uuid.uuid4().hex

    def base_ns(self) -> int:
        return self._base_ns

    async def push(self, labels: Mapping[str, str], lines: Sequence[tuple[int, str]]) -> None:
        job = labels["job_id"]
        self.logs.push(labels, lines)
        self._pushed[job] = self._pushed.get(job, 0) + len(lines)
        for _ in range(VISIBLE_LOOKS):
            if self._visible(job) >= self._pushed[job]:
                return
            await asyncio.sleep(0.1)
        pytest.fail(f"what was pushed cannot be asked for after {VISIBLE_LOOKS} looks")

    def _visible(self, job: str) -> int:
        query = f'{{job_id="{job}"}} | stats count() n'
        return int(self.logs.ask("POST", "/select/logsql/query", data={"query": query}).json()["n"])


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VictoriaLogs]:
    if REAL_URL:
        real = VictoriaLogs(REAL_URL)
        yield real
        real.close()
        return
    with victorialogs_double(tmp_path_factory.mktemp("victorialogs")) as double:
        yield double


@pytest.fixture
async def stage(logs: VictoriaLogs) -> AsyncIterator[Stage]:
    made = Stage(logs)
    yield made
    await made.store.close()


class TestVictoriaLogsStore(LogStoreContract):
    """The contract of log stores."""


class TestVictoriaLogsSource(SourceContract):
    """The contract of sources."""

    @pytest_asyncio.fixture
    async def stage(self, logs: VictoriaLogs) -> AsyncIterator[StoreStage]:
        made = StoreStage(lambda: VictoriaLogsStore(Exchange(ExchangeSettings(url=logs.url))), logs.push)
        yield made
        await made.close()


async def test_the_prefilter_of_all_rules_is_taken(stage: Stage) -> None:
    job, base = stage.name(), stage.base_ns()
    lines = ["epoch 3 begins", "RuntimeError: CUDA error: an illegal memory access was encountered", "all is well"]
    await stage.push({"job_id": job}, [(base + at, line) for at, line in enumerate(lines)])
    wanted = Selection(labels={"job_id": (job,)}, lines=prefilter(packaged(), Scope.APPLICATION).lines)
    page = await stage.store.page(wanted, base, base + NS, 100)
    assert texts(page.entries) == [lines[1]]


async def test_a_hostile_name_of_a_label_selects_nothing_else(stage: Stage) -> None:
    job, base = stage.name(), stage.base_ns()
    await stage.push({"job_id": job, "kubernetes.pod-name": "a b", "in": "x"}, [(base, "here")])
    for name, value in (("kubernetes.pod-name", "a b"), ("in", "x")):
        wanted = Selection(labels={"job_id": (job,), name: (value,)})
        page = await stage.store.page(wanted, base, base + NS, 10)
        assert texts(page.entries) == ["here"]
        assert page.entries[0].labels[name] == value
    wanted = Selection(labels={"job_id": (job,), 'node="n"} or {job_id': ("x",)})
    assert (await stage.store.page(wanted, base, base + NS, 10)).entries == ()


async def test_an_empty_line_is_an_empty_line(stage: Stage) -> None:
    job, base = stage.name(), stage.base_ns()
    await stage.push({"job_id": job}, [(base, ""), (base + 1, "a")])
    page = await stage.store.page(Selection(labels={"job_id": (job,)}), base, base + NS, 10)
    assert texts(page.entries) == ["", "a"]


async def test_the_tenant_of_the_headers_is_asked(logs: VictoriaLogs) -> None:
    other = Stage(VictoriaLogs(logs.url, "7:3"))
    ours = Stage(logs)
    job, base = other.name(), other.base_ns()
    await other.push({"job_id": job}, [(base, "of another tenant")])
    wanted = Selection(labels={"job_id": (job,)})
    assert texts((await other.store.page(wanted, base, base + NS, 10)).entries) == ["of another tenant"]
    assert (await ours.store.page(wanted, base, base + NS, 10)).entries == ()
    for each in (other, ours):
        await each.store.close()
    other.logs.close()


async def test_a_broken_pattern_is_refused_and_said(stage: Stage) -> None:
    base = stage.base_ns()
    with pytest.raises(StoreRefusedError, match="400"):
        await stage.store.page(Selection(labels={"job_id": ("1",)}, lines="(a"), base, base + NS, 10)


@pytest.mark.parametrize("labels", [{}, {"job_id": ()}, {"job_id": ("",)}, {"": ("a",)}])
async def test_what_would_select_every_stream_is_not_asked(stage: Stage, labels: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(StoreRefusedError):
        await stage.store.page(Selection(labels=labels), 0, NS, 10)


@needs_the_double
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"status": 503, "body": "starting"}, StoreAwayError),
        ({"status": 502, "body": "<html>bad gateway</html>"}, StoreAwayError),
        ({"status": 429, "body": "too many", "headers": {"Retry-After": "7"}}, StoreBusyError),
        ({"status": 401, "body": "who are you"}, StoreRefusedError),
        ({"status": 400, "body": "the time range exceeds -search.maxQueryTimeRange"}, StoreTooMuchError),
        ({"status": 413, "body": "body too large"}, StoreTooMuchError),
        ({"status": 200, "body": "<html>log in</html>"}, StoreAnswerError),
        (
            {"status": 200, "body": '{"_time":"2026-01-01T00:00:00Z","_stream":"{}","_msg":"a"}\n{"_ti'},
            StoreAnswerError,
        ),
        ({"status": 200, "body": '{"_time":"yesterday","_stream":"{}","_msg":"a"}\n'}, StoreAnswerError),
        ({"status": 200, "body": '["a"]\n'}, StoreAnswerError),
        ({"half": True}, StoreAwayError),
        ({"delay_s": 30.0}, StoreAwayError),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_each_failure_is_of_a_kind_and_the_next_page_comes(
    stage: Stage, fault: dict[str, object], error: type[StoreError]
) -> None:
    job, base = stage.name(), stage.base_ns()
    await stage.push({"job_id": job}, [(base, "a")])
    wanted = Selection(labels={"job_id": (job,)})
    impatient = VictoriaLogsStore(Exchange(ExchangeSettings(url=stage.logs.url, timeout_s=1.0)))
    stage.logs.fail({"path": "/select/logsql/query", "times": 1, **fault})
    with pytest.raises(error) as raised:
        await impatient.page(wanted, base, base + NS, 10)
    assert str(raised.value)
    assert texts((await impatient.page(wanted, base, base + NS, 10)).entries) == ["a"]
    await impatient.close()


async def test_an_answer_that_never_ends_is_bounded(stage: Stage) -> None:
    job, base = stage.name(), stage.base_ns()
    await stage.push({"job_id": job}, [(base + at, "x" * 1000) for at in range(40)])
    small = VictoriaLogsStore(Exchange(ExchangeSettings(url=stage.logs.url, answer_bytes=8192)))
    with pytest.raises(StoreAnswerError, match="8192"):
        await small.page(Selection(labels={"job_id": (job,)}), base, base + NS, 100)
    assert len(await everything(small, Selection(labels={"job_id": (job,)}), base, base + NS, 5)) == 40
    await small.close()
