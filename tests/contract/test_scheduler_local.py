from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from relance.controllers.local import LocalScheduler
from relance.controllers.local.schedulers import request_of
from relance.domain.advice import Command
from relance.ports.clocks import Clock, SystemClock
from relance.ports.schedulers import SchedulerRefusedError, SchedulerSilentError
from relance.testing.clusters import SimulatedCluster
from relance.testing.scheduler_contract import SchedulerContract
from relance.testing.scheduler_contract_requests import RequestContract

SETTINGS = {"cluster": "local", "nodes": 4, "requeue_delay_s": 3.0, "kill_wait_s": 1.0}
SCRIPT = 'while [ ! -e "$1" ]; do sleep 0.05; done; exit "$(cat "$1")"'


class LocalBench:
    """The simulated scheduler as a process of its own, and the adapter on its socket."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.clock: Clock = SystemClock()
        self.rest_s = 1.1
        self.window_s = 3.0
        self.canceller_uid = 4711
        self.nodes = tuple(f"node{number:03d}" for number in range(1, 5))
        self.scheduler = LocalScheduler(cluster="local", state_dir=cluster.state_dir, clock=self.clock)
        self._cluster = cluster
        self._flags: dict[str, Path] = {}

    async def submit(self, *, nodes: int = 2, exclude: Sequence[str] = (), comment: str = "") -> str:
        flag = self._cluster.work_dir / f"end-{len(self._flags)}"
        answer = self._cluster.ask(
            "submit",
            name="llama",
            argv=["sh", "-c", SCRIPT, "sh", str(flag)],
            nodes=nodes,
            exclude=list(exclude),
            comment=comment,
            work_dir=str(self._cluster.work_dir),
        )
        raw_id = str(answer["job_id"])
        self._flags[raw_id] = flag
        return raw_id

    async def end(self, raw_id: str, exit_code: int) -> None:
        flag = self._flags[raw_id]
        flag.with_suffix(".new").write_text(str(exit_code))
        flag.with_suffix(".new").replace(flag)
        await asyncio.get_running_loop().run_in_executor(None, self._wait_for_the_end, int(raw_id))
        flag.unlink()

    def _wait_for_the_end(self, job_id: int) -> None:
        """The next attempt must not find the flag of this one."""
        while (answer := self._cluster.ask("job", job_id=job_id))["job"]["state"] in ("RUNNING", "COMPLETING"):
            self._cluster.ask("wait", after=answer["change"], timeout_s=5)

    async def cancel(self, raw_id: str, uid: int) -> None:
        self._cluster.ask("cancel", job_id=int(raw_id), acting_uid=uid)

    async def go_away(self) -> None:
        self._cluster.crash()


class TestLocalScheduler(SchedulerContract, RequestContract):
    @pytest.fixture
    async def bench(self, tmp_path: Path) -> AsyncIterator[LocalBench]:
        with SimulatedCluster(tmp_path / "cluster", SETTINGS) as cluster:
            bench = LocalBench(cluster)
            yield bench
            await bench.scheduler.close()


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("relance-local",),
        ("relance-local", "requeuehold", "17", "18"),
        ("relance-local", "requeue", "17", "18"),
        ("relance-local", "requeue", "17; rm"),
        ("relance-local", "update", "17", "start=now"),
        ("relance-local", "update", "17", "comment=x", "start=now"),
        ("relance-local", "node_down", "node001"),
        ("other", "requeue", "17"),
    ],
)
def test_anything_but_our_own_commands_is_refused_before_it_is_sent(argv: tuple[str, ...]) -> None:
    with pytest.raises(SchedulerRefusedError, match="not a command of this scheduler"):
        request_of(Command(argv=argv))


@asynccontextmanager
async def answering(folder: Path, answer: bytes) -> AsyncIterator[LocalScheduler]:
    """An adapter on a socket on which every request gets this answer."""
    served: list[asyncio.Event] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done = asyncio.Event()
        served.append(done)
        while await reader.readline():
            writer.write(answer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        done.set()

    async with await asyncio.start_unix_server(serve, folder / "scheduler.sock"):
        scheduler = LocalScheduler(cluster="local", state_dir=folder, clock=SystemClock())
        yield scheduler
        await scheduler.close()
        for done in served:
            await done.wait()


GOOD = {"ok": True, "as_of": 1.0, "change": 1}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"garbage\n", id="not JSON"),
        pytest.param(b"[]\n", id="not an object"),
        pytest.param(json.dumps({"ok": False, "error": "internal error: x"}).encode() + b"\n", id="internal error"),
        pytest.param(json.dumps({"ok": False, "error": "missing field"}).encode() + b"\n", id="question refused"),
        pytest.param(json.dumps(GOOD).encode() + b"\n", id="no job in it"),
        pytest.param(json.dumps({**GOOD, "job": {"job_id": 1}}).encode() + b"\n", id="half a job"),
    ],
)
async def test_an_answer_that_cannot_be_read_is_silence_and_not_an_absent_job(tmp_path: Path, answer: bytes) -> None:
    async with answering(tmp_path, answer) as scheduler:
        with pytest.raises(SchedulerSilentError):
            await scheduler.read("1")
        with pytest.raises(SchedulerSilentError):
            await scheduler.look()


async def test_an_answer_that_does_not_come_in_time_is_silence_and_the_next_request_asks_anew(tmp_path: Path) -> None:
    async with answering(tmp_path, b"") as scheduler:
        for _ in range(2):
            with pytest.raises(SchedulerSilentError, match=r"did not answer requeue within 0\.1 s"):
                await scheduler.send(Command(argv=("relance-local", "requeue", "1")), 0.1)
