"""The watcher: follows the attempts that the server names, and hands over what it finds.

It knows ports only. Each part of its work has a method that does it once, by which it is tested: `refresh`, `tick`,
`deliver`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import timedelta

import structlog

from relance.domain.keys import AttemptKey
from relance.domain.observations import Attachment, WatcherBatch
from relance.domain.views import Assignment
from relance.ports.backends import Backend, BackendRefusedError, BackendUnavailableError
from relance.ports.clocks import Clock
from relance.ports.signals import SignalSource
from relance.ports.sources import Reading, Source
from relance.rules import EngineMaker, Pack, Scanner
from relance.watching.attempts import Attempt
from relance.watching.checkpoints import Checkpoint, from_text
from relance.watching.pipelines import Pipeline, meanings_of, new_memory
from relance.watching.senses import Senses
from relance.watching.settings import WatcherSettings

_LOG = structlog.get_logger("relance.watching")
_DELIVER_S = 0.25
"""Between two looks for what is to be handed over."""
_FAILED_S = 5.0
"""A source that fails as none should is left alone for so long."""
_LISTEN_S = 5.0
"""How long a source is listened to at a time."""

_STEP_S = 2.0
"""A wall clock that moves by so much beside the steady one was set; less is slewing, or a slow machine."""


class Watcher:
    """One cluster's watcher. Build it, then `run` it; the sources are closed by whoever opened them."""

    def __init__(
        self,
        *,
        backend: Backend,
        senses: Senses,
        pack: Pack,
        clock: Clock,
        settings: WatcherSettings,
        engine: EngineMaker | None = None,
    ) -> None:
        """Take the parts; `engine` makes what finds the lines of rules, None: the best there is here."""
        self._backend = backend
        self._senses = senses
        self._sources = senses.logs
        self._scanner = Scanner(pack, engine=engine)
        self._meanings = meanings_of(pack)
        self._clock = clock
        self._settings = settings
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._leaving: dict[AttemptKey, Attempt] = {}
        self._ticks: dict[AttemptKey, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(settings.at_once)
        self._ahead_of_steady = _ahead_of_steady(clock)

    async def run(self) -> None:
        """Work until cancelled; then hand over what there is, if the server takes it."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._preparing())
                group.create_task(self._assigning())
                group.create_task(self._delivering())
                group.create_task(self._seeing())
                for source in self._sources:
                    group.create_task(self._listening(source))
                for signals in self._senses.signals:
                    group.create_task(self._signalling(signals))
        finally:
            await self.stop()

    async def _preparing(self) -> None:
        """Compile the rules beside all else, so that neither the start nor the first line waits for it."""
        await asyncio.to_thread(self._scanner.prepare)
        _LOG.info("rules are compiled", cluster=self._settings.cluster, engine=self._scanner.engine)

    async def stop(self) -> None:
        """End what is under way and hand over once what there is."""
        for task in list(self._ticks.values()):
            task.cancel()
        await asyncio.gather(*self._ticks.values(), return_exceptions=True)
        for attempt in [*self._attempts.values(), *self._leaving.values()]:
            await self._hand_over(attempt, at_last=True)

    async def refresh(self) -> int:
        """Follow exactly the attempts that the server names now; gives the position of its history.

        Raises BackendUnavailableError, BackendRefusedError.
        """
        answer = await self._backend.assignments(self._settings.cluster)
        wanted = {assignment.attempt: assignment for assignment in answer.assignments}
        for key in self._attempts.keys() - wanted.keys():
            await self._leave(key, wanted)
        for key, assignment in wanted.items():
            known = self._attempts.get(key)
            if known is not None:
                known.assignment = assignment
                continue
            with contextlib.suppress(BackendUnavailableError):  # without its checkpoint it is not begun: asked again
                self._attempts[key] = await self._begin(assignment)
        for source in self._sources:
            positions = {
                key: attempt.positions[source.name]
                for key, attempt in self._attempts.items()
                if source.name in attempt.positions
            }
            source.assign([attempt.assignment for attempt in self._attempts.values()], positions)
        return answer.position

    async def tick(self, key: AttemptKey) -> None:
        """Read one attempt once, and hand over if it is time. What goes wrong is noted with it, and stops nothing."""
        attempt = self._attempts.get(key)
        if attempt is None:
            return
        self._mind_the_clock()
        async with self._room, attempt.lock:
            if not attempt.is_far_ahead:
                try:
                    for source in self._sources:
                        if attempt.save_folder is not None:
                            source.watch_folder(key, attempt.save_folder)
                        if attempt.learned is not None:
                            source.learn(key, attempt.learned)
                    attempt.take(await self._readings(key, attempt), len(self._sources))
                except Exception as error:  # noqa: BLE001 - the one seam at which an attempt's trouble ends
                    attempt.trouble = f"a part of its logs could not be read: {error!r}"
                    _LOG.exception("attempt could not be read", attempt=str(key))
            if attempt.is_due(self._clock.monotonic()):
                await self._hand_over_with_tails(attempt)

    async def hear(self, source: SignalSource) -> None:
        """Have a source of signals look once, and tell each attempt what is new of it."""
        attempts = dict(self._attempts)
        closely = frozenset(key for key, attempt in attempts.items() if attempt.is_in_doubt)
        source.assign([attempt.assignment for attempt in attempts.values()], closely)
        await source.look()
        up_to = min((entry.up_to for entry in source.sight() if entry.up_to is not None), default=None)
        for key, attempt in attempts.items():
            async with attempt.lock:
                try:
                    attempt.hear(source.name, source.take(key), up_to)
                except Exception as error:  # noqa: BLE001 - as in `tick`: an attempt's trouble ends here
                    attempt.trouble = f"signals of it could not be weighed: {error!r}"
                    _LOG.exception("signals could not be weighed", attempt=str(key), source=source.name)

    async def see(self) -> None:
        """Tell the server how the sources stand. Raises BackendUnavailableError, BackendRefusedError."""
        report = self._senses.sight(self._settings.cluster, self._settings.holder, self._clock.now())
        if report is not None:
            await self._backend.see(report)

    async def deliver(self) -> None:
        """Hand over all that is due."""
        now = self._clock.monotonic()
        for attempt in list(self._attempts.values()):
            if attempt.is_due(now) and not attempt.lock.locked():
                async with attempt.lock:
                    await self._hand_over_with_tails(attempt)
        for key, attempt in list(self._leaving.items()):
            old = attempt.left_at is not None and now - attempt.left_at > self._settings.keep_s
            if old or (now >= attempt.retry_at and await self._hand_over(attempt)):
                self._leaving.pop(key, None)

    # ------------------------------------------------------------------------------------------------------- inwards

    async def _readings(self, key: AttemptKey, attempt: Attempt) -> list[tuple[str, Reading]]:
        """What each source has new; of one that fails nothing, while what others have read is read and not lost."""
        readings = []
        for source in self._sources:
            try:
                readings.append((source.name, await source.read(key)))
            except Exception as error:  # noqa: BLE001 - as in `tick`, for each source alone
                attempt.trouble = f"a part of its logs could not be read: {error!r}"
                _LOG.exception("attempt could not be read", attempt=str(key), source=source.name)
        return readings

    def _mind_the_clock(self) -> None:
        """See whether the wall clock was set, or the machine slept: that is no silence of anybody's."""
        ahead_s = _ahead_of_steady(self._clock)
        step_s = ahead_s - self._ahead_of_steady
        if abs(step_s) < _STEP_S:
            return
        self._ahead_of_steady = ahead_s
        _LOG.warning("the clock was set", by_s=round(step_s, 3))
        for attempt in self._attempts.values():
            attempt.clock_stepped(timedelta(seconds=step_s))

    async def _begin(self, assignment: Assignment) -> Attempt:
        """Go on from the attempt's checkpoint, or from where the logs of the attempt before it ended."""
        key = assignment.attempt
        limits = self._settings
        pipeline = Pipeline(
            self._scanner, self._meanings, limits.hang, assignment, limits.slowdown, limits.divergence
        )  # fmt: skip
        checkpoint = from_text(await self._backend.checkpoint(key))
        if checkpoint is None:
            positions: Mapping[str, object] = {}
            if key.restart_count > 0:
                before = AttemptKey(job=key.job, restart_count=key.restart_count - 1)
                earlier = from_text(await self._backend.checkpoint(before))
                positions = earlier.positions if earlier is not None else {}
            checkpoint = Checkpoint(positions=positions, memory=new_memory(self._clock.now()))
        return Attempt(assignment, pipeline, checkpoint, self._settings)

    async def _leave(self, key: AttemptKey, wanted: Mapping[AttemptKey, Assignment]) -> None:
        """Follow an attempt no longer. One that has ended, or that another has replaced, has its last word."""
        attempt = self._attempts.pop(key)
        async with attempt.lock:
            replaced = any(other.job == key.job and other.restart_count > key.restart_count for other in wanted)
            if replaced or attempt.assignment.ended_at is not None:
                attempt.finish(self._clock.now())
            attempt.left_at = self._clock.monotonic()
            if not await self._hand_over(attempt):
                self._leaving[key] = attempt

    async def _hand_over(self, attempt: Attempt, *, at_last: bool = False) -> bool:
        """Hand over all there is of an attempt; False when the server did not take it."""
        kept = at_last or attempt.wants_checkpoint(self._clock.monotonic())
        batch = attempt.batch(self._settings.holder, self._clock.now(), with_checkpoint=kept)
        if not await self._submit(batch):
            attempt.failed(self._clock.monotonic())
            return False
        attempt.handed_over(batch, self._clock.monotonic())
        return True

    async def _hand_over_with_tails(self, attempt: Attempt) -> None:
        """Hand over, and have the last parts of its logs kept: at the end before the word that lets a restart begin."""
        if attempt.tells_its_end:
            await self._keep_tails(attempt)
        await self._hand_over(attempt)
        await self._keep_tails(attempt)

    async def _keep_tails(self, attempt: Attempt) -> None:
        """Have the last parts of its logs kept, before a restart can truncate them."""
        key = attempt.assignment.attempt
        if not attempt.wants_tails or attempt.retry_at > self._clock.monotonic():
            return
        tails = [each for source in self._sources for each in await source.tails(key, self._settings.tail_bytes)]
        for part in _parts(attempt.new_tails(tails), self._settings.batch_bytes):
            batch = WatcherBatch(
                attempt=key,
                holder=self._settings.holder,
                as_of=self._clock.now(),
                coverage=attempt.coverage(),
                attachments=part,
            )
            if not await self._submit(batch):
                return
        attempt.tails_taken(tails)

    async def _submit(self, batch: WatcherBatch) -> bool:
        try:
            await self._backend.submit(batch)
        except BackendUnavailableError:
            return False
        except BackendRefusedError as error:
            _LOG.warning("server refuses", attempt=str(batch.attempt), reason=str(error))
            return False
        return True

    async def _assigning(self) -> None:
        wait_s = self._settings.retry_first_s
        while True:
            try:
                position = await self.refresh()
                await self._clock.sleep(self._settings.refresh_min_s)
                await self._backend.wait(position, self._settings.refresh_s)
            except (BackendUnavailableError, BackendRefusedError) as error:
                _LOG.warning("server is away", reason=str(error), again_in_s=wait_s)
                await self._clock.sleep(wait_s)
                wait_s = min(wait_s * 2, self._settings.retry_most_s)
            else:
                wait_s = self._settings.retry_first_s

    async def _listening(self, source: Source) -> None:
        while True:
            try:
                changed = await source.changed(_LISTEN_S)
            except Exception:  # noqa: BLE001 - a source's trouble ends here: the others are read on without it
                _LOG.exception("a source failed", source=source.name)
                await self._clock.sleep(_FAILED_S)
                continue
            for key in changed:
                if key in self._attempts and key not in self._ticks:
                    task = asyncio.create_task(self.tick(key))
                    self._ticks[key] = task
                    task.add_done_callback(lambda _, key=key: self._ticks.pop(key, None))  # type: ignore[misc]
            await asyncio.sleep(0)

    async def _signalling(self, source: SignalSource) -> None:
        while True:
            try:
                await self.hear(source)
            except Exception:  # noqa: BLE001 - a source's trouble ends here: logs are read on without it
                _LOG.exception("a source of signals failed", source=source.name)
                await self._clock.sleep(_FAILED_S)
            await asyncio.sleep(0)

    async def _seeing(self) -> None:
        while True:
            with contextlib.suppress(BackendUnavailableError, BackendRefusedError):  # said again soon
                await self.see()
            await self._clock.sleep(self._settings.sight_s)

    async def _delivering(self) -> None:
        while True:
            await self._clock.sleep(_DELIVER_S)
            await self.deliver()


def _ahead_of_steady(clock: Clock) -> float:
    """How far the wall clock is ahead of the one that nobody sets, in seconds."""
    return clock.now().timestamp() - clock.monotonic()


def _parts(attachments: Sequence[Attachment], size_bytes: int) -> list[tuple[Attachment, ...]]:
    """The attachments in parts of about that size."""
    parts: list[list[Attachment]] = []
    left = 0
    for each in attachments:
        if not parts or len(each.data) > left:
            parts.append([])
            left = size_bytes
        parts[-1].append(each)
        left -= len(each.data)
    return [tuple(part) for part in parts]
