"""The life of one attempt: its ranks start, end or are ended, and srun's words on it go into the job's output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from relance.simulation import step_messages
from relance.simulation.ranks import Rank, RankPlan

_LEAVING_POLL_S = 0.02
_SIGNAL_EXIT = 128
_OUT_OF_MEMORY_CODE = "0:125"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why an attempt is ended from outside.

    `kind` is one of cancel, cancel_step, requeue, timeout, node_fail, preempt, shutdown.
    """

    kind: str
    uid: int | None = None
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPlan:
    """What an attempt runs, and how it ends. Times in seconds."""

    job_id: int
    ranks: tuple[RankPlan, ...]
    output: Path
    rank_files: tuple[Path, ...]
    """One per rank, or none."""
    truncate: bool
    tee: bool
    kill_on_bad_exit: bool
    bad_exit_delay_s: float
    kill_wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended, its processes gone."""

    exit_code: str
    derived_exit_code: str
    ending: Ending | None
    out_of_memory: bool

    @property
    def is_good(self) -> bool:
        """Whether every rank ended with 0 and nobody ended them."""
        return self.ending is None and self.exit_code == "0:0" and not self.out_of_memory


_WHY = {
    "timeout": "DUE TO TIME LIMIT",
    "requeue": "DUE TO JOB REQUEUE",
    "node_fail": "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
    "preempt": "DUE TO PREEMPTION",
}


class LiveAttempt:
    """An attempt that runs.

    Args:
        plan: What runs.
        now: Gives the time, in seconds since the epoch.
        rank_ended: Called with each rank that has ended, before srun's line on it is written.
        leaving: Called once when the last rank has ended and only the clearing up is left.
    """

    def __init__(
        self,
        plan: AttemptPlan,
        now: Callable[[], float],
        *,
        rank_ended: Callable[[Rank], None],
        leaving: Callable[[], None],
    ) -> None:
        self.plan = plan
        self.ending: Ending | None = None
        self._now = now
        self._rank_ended = rank_ended
        self._leaving = leaving
        self._tearing_down = False
        self._all_ended = asyncio.Event()
        self._terminating: asyncio.Task[None] | None = None
        self._first: list[Rank] = []
        """Ranks that ended before the others were ended because of them: they make the exit code."""
        self._files: list[int] = []
        self.ranks = [Rank(each, self._writer(each.rank), self._on_end) for each in plan.ranks]

    async def run(self) -> AttemptEnd:
        """Start the ranks and wait until all are gone.

        Raises:
            OSError: The job's output cannot be opened.
        """
        self._open_files()
        try:
            for rank in self.ranks:
                if self.ending is not None:
                    self.ranks = [each for each in self.ranks if each.pid is not None or each.returncode is not None]
                    break
                rank.start()
                await asyncio.sleep(0)
            if any(rank.returncode is None for rank in self.ranks):
                await self._all_ended.wait()
            self._leaving()
            await self._cleared()
            self._report_torn_down()
            return self._end()
        finally:
            for fd in self._files:
                os.close(fd)

    def end(self, ending: Ending, *, grace_s: float | None = None) -> None:
        """End the attempt from outside; a second call changes nothing.

        With `grace_s` the ranks get TERM and that long before what follows.
        """
        if self.ending is not None:
            return
        if grace_s is not None:
            for rank in self.ranks:
                rank.send(signal.SIGTERM)
            asyncio.get_running_loop().call_later(grace_s, self._end_after_grace, ending)
            return
        self.ending = ending
        self._announce(ending)
        hard = ending.kind in ("node_fail", "cancel_step")
        self._tear_down(signal.SIGKILL if hard else signal.SIGTERM)

    def _end_after_grace(self, ending: Ending) -> None:
        if not self._all_ended.is_set():
            self.end(ending)

    def _announce(self, ending: Ending) -> None:
        first = self.plan.ranks[0].node
        why = _WHY.get(ending.kind, "")
        if ending.kind == "node_fail":
            self._say(step_messages.node_failed(ending.node))
        if ending.kind == "requeue":
            self._say(step_messages.forced_termination())
        self._say(step_messages.step_aborted(self.plan.kill_wait_s))
        if ending.kind not in ("cancel_step", "shutdown"):
            self._say(step_messages.job_cancelled(self.plan.job_id, first, self._now(), why))
        self._say(step_messages.step_cancelled(self.plan.job_id, first, self._now(), why))

    def _tear_down(self, first_signal: signal.Signals) -> None:
        if not self._tearing_down:
            self._tearing_down = True
            self._terminating = asyncio.get_running_loop().create_task(self._terminate(first_signal))

    async def _terminate(self, first_signal: signal.Signals) -> None:
        """A stopped rank is continued first, as slurmstepd does, or it would not see the TERM."""
        for rank in self.ranks:
            rank.send_to_group(first_signal)
            rank.send_to_group(signal.SIGCONT)
        await asyncio.sleep(self.plan.kill_wait_s)
        for rank in self.ranks:
            rank.send_to_group(signal.SIGKILL)

    async def _cleared(self) -> None:
        """Wait until the children of the ranks are gone too, and see that they go."""
        if not all(rank.has_left() for rank in self.ranks):
            self._tear_down(signal.SIGTERM)
        while not all(rank.has_left() for rank in self.ranks):  # noqa: ASYNC110 -- the kernel tells nobody of a group
            await asyncio.sleep(_LEAVING_POLL_S)
        if self._terminating is not None:
            self._terminating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._terminating

    def _on_end(self, rank: Rank) -> None:
        self._rank_ended(rank)
        if rank.problem:
            self._say(step_messages.not_executable(rank.plan.argv[0], rank.problem))
        if rank.out_of_memory:
            self._say(step_messages.oom_detected(self.plan.job_id))
        code = rank.returncode or 0
        if not self._tearing_down:
            self._first.append(rank)
            if code:
                self._say(_task_ended([rank]))
                if self.plan.kill_on_bad_exit:
                    asyncio.get_running_loop().call_later(self.plan.bad_exit_delay_s, self._end_the_rest)
        if all(each.returncode is not None for each in self.ranks):
            self._all_ended.set()

    def _end_the_rest(self) -> None:
        if self._all_ended.is_set() or self._tearing_down:
            return
        self._say(step_messages.step_terminated(self.plan.job_id))
        self._say(step_messages.step_cancelled(self.plan.job_id, self.plan.ranks[0].node, self._now()))
        self._tear_down(signal.SIGTERM)

    def _report_torn_down(self) -> None:
        """Srun's lines on the ranks that were ended with the others, those of a node in one line."""
        groups: defaultdict[tuple[str, int], list[Rank]] = defaultdict(list)
        for rank in self.ranks:
            if rank not in self._first and rank.returncode:
                groups[rank.plan.node, rank.returncode].append(rank)
        for ranks in groups.values():
            self._say(_task_ended(ranks))

    def _end(self) -> AttemptEnd:
        codes = [rank.returncode or 0 for rank in self._first]
        highest = max((code if code >= 0 else _SIGNAL_EXIT - code for code in codes), default=0)
        derived = f"0:{highest - _SIGNAL_EXIT}" if -(highest - _SIGNAL_EXIT) in codes else f"{highest}:0"
        exit_code = f"{highest}:0"
        if self.ending is not None:
            exit_code, derived = _code_of(self.ending, derived)
        out_of_memory = any(rank.out_of_memory for rank in self._first)
        if out_of_memory:
            exit_code = derived = _OUT_OF_MEMORY_CODE
        return AttemptEnd(
            exit_code=exit_code, derived_exit_code=derived, ending=self.ending, out_of_memory=out_of_memory
        )

    def _open_files(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if self.plan.truncate else 0)
        for path in (self.plan.output, *self.plan.rank_files):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files.append(os.open(path, flags, 0o640))

    def _writer(self, rank: int) -> Callable[[bytes], None]:
        mark = step_messages.label(rank, len(self.plan.ranks))

        def write(line: bytes) -> None:
            if self.plan.rank_files:
                _write_all(self._files[1 + rank], line)
            if not self.plan.rank_files or self.plan.tee:
                _write_all(self._files[0], mark + line)

        return write

    def _say(self, line: str) -> None:
        _write_all(self._files[0], f"{line}\n".encode())


def rank_environment(base: Mapping[str, str], *, rank: int, ranks: int, ranks_per_node: int) -> dict[str, str]:
    """The environment that places a rank among the others, in the names that torchrun uses."""
    return {
        **base,
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": str(rank % ranks_per_node),
        "LOCAL_WORLD_SIZE": str(ranks_per_node),
        "NODE_RANK": str(rank // ranks_per_node),
    }


def _task_ended(ranks: list[Rank]) -> str:
    first = ranks[0]
    return step_messages.task_ended(
        first.plan.node,
        (rank.plan.rank for rank in ranks),
        first.returncode or 0,
        out_of_memory=first.out_of_memory,
    )


def _code_of(ending: Ending, derived: str) -> tuple[str, str]:
    """Exit codes of attempts that were ended from outside, as accounting of 25.11 shows them."""
    by_kind = {"cancel_step": ("137:0", "0:9"), "node_fail": ("1:0", "0:0"), "timeout": ("0:0", "0:0")}
    kept = derived if derived != "0:0" else "0:15"
    return by_kind.get(ending.kind, ("0:0", kept))


def _write_all(fd: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # a full disk costs output, not the job: srun goes on as well
        while data:
            data = data[os.write(fd, data) :]
