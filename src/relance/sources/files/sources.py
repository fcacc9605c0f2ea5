"""`FileSource`: growing log files as a source, on any file system."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from relance.domain.findings import Coverage
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Attachment, LogBlock, SeenUpTo
from relance.domain.views import Assignment
from relance.ports.clocks import Clock
from relance.ports.sources import Reading
from relance.sources.files.attachments import tail_of
from relance.sources.files.chains import Budget, FileOutcome, FileRequest, read_chain
from relance.sources.files.coverages import coverage_of
from relance.sources.files.disks import Disk, RefusedError
from relance.sources.files.following import Followed, Following
from relance.sources.files.growths import Growths
from relance.sources.files.lanes import Errand, Lanes, Unit
from relance.sources.files.looks import Look, look
from relance.sources.files.mounts import read_network_devices
from relance.sources.files.paces import Meter, Pace
from relance.sources.files.positions import Positions, from_json, to_json
from relance.sources.files.settings import FileSettings

_ENDS_AT_MOST = 2000
"""Jobs of which it is remembered where their last attempt's logs ended."""
_FOLDERS_AT_MOST = 20_000
_TAILS_BYTES = 2 * 1024 * 1024
"""All kept parts of one attempt together."""


class _Attempt:
    """One attempt with the work on it that is not finished."""

    def __init__(self, following: Following, pace: Pace) -> None:
        self.following = following
        self.pace = pace
        self.looked_at: datetime | None = None
        """When the last look at all paths began that came to its end."""
        self.errands: list[tuple[Errand, Mapping[str, Sequence[Followed]]]] = []
        self.turn = 0
        self.more = False
        self.failures: dict[str, str] = {}
        """Work that failed in a way nobody thought of, with the words for it."""


class FileSource:
    """Implements `relance.ports.sources.Source` over files (design 12 and 13)."""

    def __init__(self, settings: FileSettings, clock: Clock, disk: Disk | None = None) -> None:
        """Follow files below the settings' roots; `disk` is the machine's own unless given."""
        self._settings = settings
        self._clock = clock
        self._disk = disk if disk is not None else Disk(settings.roots, clock.monotonic)
        self._lanes = Lanes(clock, threads=settings.threads, at_most=settings.threads_at_most)
        self._growths = Growths(self._disk, self._lanes, clock, settings)
        self._attempts: dict[AttemptKey, _Attempt] = {}
        self._late: list[_Attempt] = []
        self._ends: OrderedDict[JobKey, Positions] = OrderedDict()
        self._open: OrderedDict[Followed, _Attempt] = OrderedDict()
        self._stuck: dict[object, Errand] = {}
        self._devices: dict[str, int] = {}
        self._known_devices: set[int] = set()
        self._network: frozenset[int] = frozenset()
        self._meters: dict[int, Meter] = {}
        self._kick = asyncio.Event()

    @property
    def name(self) -> str:
        """The source's name in coverage and watermarks."""
        return "files"

    def assign(self, assignments: Sequence[Assignment], positions: Mapping[AttemptKey, Mapping[str, object]]) -> None:
        """Follow exactly these attempts."""
        wanted = {assignment.attempt: assignment for assignment in assignments}
        now = self._clock.monotonic()
        for key in [key for key in self._attempts if key not in wanted]:
            self._leave(key)
        for key in sorted(wanted, key=lambda key: key.restart_count):
            known = self._attempts.get(key)
            if known is not None:
                known.following.update(wanted[key], now)
                continue
            given = from_json(positions.get(key))
            own = given is not None and given.attempt == str(key)
            restored = given if own else self._earlier(key) or given
            following = Following(wanted[key], self._settings, restored, now)
            self._attempts[key] = _Attempt(following, Pace(self._settings, now))
        newest: dict[JobKey, int] = {}
        for key in self._attempts:
            newest[key.job] = max(key.restart_count, newest.get(key.job, 0))
        for key, state in self._attempts.items():
            if key.restart_count < newest[key.job]:
                state.following.stop_job_logs()  # what is written there now is the next attempt's
                self._close_unwanted(state)
        self._kick.set()

    def watch_folder(self, attempt: AttemptKey, path: str) -> None:
        """Look now and then whether a folder of the attempt's user grows."""
        if attempt in self._attempts:
            self._growths.watch(attempt, path)

    def learn(self, attempt: AttemptKey, pattern: str) -> None:
        """All lines are delivered anyway."""

    async def read(self, attempt: AttemptKey) -> Reading:
        state = self._attempts.get(attempt)
        if state is None:
            return Reading(blocks=(), positions={}, coverage=())
        state.pace.begin()
        for late in list(self._late):
            self._harvest(late)
        blocks = self._harvest(state)
        following = state.following
        try:
            stuck = await self._round(state, blocks, self._clock.now())
        finally:
            state.pace.end(self._clock.monotonic(), grew=bool(blocks), network=self._is_network(state))
            self._close_unwanted(state)
        if not stuck:
            following.finish_job_logs(self._clock.monotonic(), late_s=self._late_s(state))
            self._close_unwanted(state)
        complete = (
            not stuck
            and not state.more
            and not state.failures
            and state.looked_at is not None
            and following.is_read_to_its_end
        )
        if state.more:
            state.pace.hurry()
        self._kick.set()  # who waits in `changed` counted without this attempt, which has its next turn only now
        return Reading(
            blocks=tuple(blocks),
            positions=to_json(following.positions()),
            coverage=coverage_of(following, stuck=stuck, failures=state.failures),
            seen=SeenUpTo(source=self.name, at=state.looked_at) if complete and state.looked_at is not None else None,
            more=state.more,
            life=self._growths.life(attempt, following),
        )

    async def tails(self, attempt: AttemptKey, at_most_bytes: int) -> tuple[Attachment, ...]:
        """The last part of each followed file, of the attempt's own bytes only, masked."""
        state = self._attempts.get(attempt)
        if state is None:
            return ()
        budget = Budget(_TAILS_BYTES)
        units = [
            Unit(key=request.path, mount=self._mount(request.path), work=partial(tail_of, self._disk, request, budget))
            for request in state.following.tail_requests(self._clock.now(), at_most_bytes)
        ]
        ready = [unit for unit in units if not self._is_stuck(unit.mount)]
        if not ready:
            return ()
        errand = self._lanes.begin(ready)
        await self._lanes.wait(errand, self._settings.limit_s)
        self._note_stuck(errand)
        return tuple(result for _, result in errand.take()[0] if isinstance(result, Attachment))

    async def changed(self, timeout_s: float) -> frozenset[AttemptKey]:
        """Attempts whose turn it is: files are polled, at a pace that follows their growth."""
        end = self._clock.monotonic() + timeout_s
        while True:
            now = self._clock.monotonic()
            due = frozenset(key for key, state in self._attempts.items() if state.pace.due <= now)
            if due or now >= end:
                for key in due:
                    self._attempts[key].pace.told(now)
                return due
            next_s = min([end, *(state.pace.due for state in self._attempts.values())]) - now
            self._kick.clear()
            waits = (asyncio.ensure_future(self._clock.sleep(next_s)), asyncio.ensure_future(self._kick.wait()))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    def sight(self) -> tuple[Coverage, ...]:
        return ()

    async def close(self) -> None:
        """Close all files and let the threads go; one that hangs is left to itself."""
        for key in list(self._attempts):
            self._leave(key)
        await self._growths.close()
        self._lanes.close()

    async def _round(self, state: _Attempt, blocks: list[LogBlock], began: datetime) -> frozenset[str]:
        """Look at all paths, if it is time, and read all files; gives the patterns that do not answer."""
        following, now = state.following, self._clock.monotonic()
        budget = Budget(state.pace.allowed_bytes(now))
        before, turn = budget.left_bytes, state.turn + state.more
        state.more = False
        patterns = self._patterns_to_look_at(state, now)
        looks = [
            Unit(
                key=f"look {pattern}",
                mount=self._mount(pattern),
                work=partial(look, self._disk, following.look_request(pattern)),
            )
            for pattern in patterns or ()
        ]
        chains = following.requests(began, now, late_s=self._late_s(state))
        names = list(chains)
        state.turn = turn % max(len(names), 1)  # each file is first in its turn, so that none starves
        done = await self._perform(
            state, looks, {name: chains[name] for name in names[state.turn :] + names[: state.turn]}, budget, blocks
        )
        new = {
            path: chain
            for path, chain in following.requests(began, now, late_s=self._late_s(state)).items()
            if any(request.position is None for request in chain)
        }
        if new:
            await self._perform(state, (), new, budget, blocks)
        state.pace.spent(before - budget.left_bytes)
        state.more = state.more or budget.left_bytes <= 0
        unanswered = frozenset(pattern for pattern in patterns or () if f"look {pattern}" not in done)
        if patterns is not None and not unanswered:
            state.looked_at = began
        return unanswered

    async def _perform(
        self,
        state: _Attempt,
        looks: Sequence[Unit],
        chains: Mapping[str, Sequence[FileRequest]],
        budget: Budget,
        blocks: list[LogBlock],
    ) -> frozenset[str]:
        """Have looks and reads done in a thread, as far as the time allows; gives the keys of those that were."""
        self._make_room(state, sum(request.fd is None for chain in chains.values() for request in chain))
        files = {name: [state.following.files[request.identity] for request in chain] for name, chain in chains.items()}
        units = [
            *looks,
            *(
                Unit(key=name, mount=self._mount(name), work=partial(read_chain, self._disk, chain, budget))
                for name, chain in chains.items()
            ),
        ]
        ready = [unit for unit in units if not self._is_stuck(unit.mount)]
        for chain in files.values():
            for file in chain:
                file.at_end = False
        if not ready:
            return frozenset()
        for unit in ready:
            for file in files.get(unit.key, ()):
                file.busy = True
        errand = self._lanes.begin(ready)
        state.errands.append((errand, files))
        await self._lanes.wait(errand, self._settings.limit_s)
        self._note_stuck(errand)
        done: set[str] = set()
        blocks += self._harvest(state, done)
        return frozenset(done)

    def _harvest(self, state: _Attempt, done: set[str] | None = None) -> list[LogBlock]:
        """Take in what threads have finished, those that came late included."""
        blocks: list[LogBlock] = []
        for errand, files in list(state.errands):
            stopped = errand.is_stopped  # asked first: what it does after this is taken the next time
            results, current = errand.take()
            if stopped:
                state.errands.remove((errand, files))
            for key, chain in files.items():
                for file in chain:
                    file.busy = file.busy and current is not None and key == current.key
            for key, result in results:
                if done is not None:
                    done.add(key)
                state.failures.pop(key, None)
                if isinstance(result, Exception):
                    state.failures[key] = f"cannot be read: {result!r}"
                blocks += self._take_result(state, result)
        if state in self._late and not state.errands:
            self._late.remove(state)
            state.following.stop()
        self._close_unwanted(state)
        return blocks

    def _take_result(self, state: _Attempt, result: object) -> list[LogBlock]:
        now = self._clock.monotonic()
        if isinstance(result, Look):
            self._learn_devices(result)
            state.following.take_look(result, now)
        outcomes = result if isinstance(result, tuple) else ()
        return [block for outcome in outcomes for block in self._take_outcome(state, outcome, now)]

    def _take_outcome(self, state: _Attempt, outcome: FileOutcome, now: float) -> tuple[LogBlock, ...]:
        blocks = state.following.take_outcome(outcome, now)
        state.more = state.more or (outcome.read is not None and not outcome.read.at_end)
        file = state.following.files.get(outcome.identity)
        if file is not None and file.fd is not None:
            self._open[file] = state
            self._open.move_to_end(file)
        if outcome.moved:
            state.pace.look_soon()
        return blocks

    def _make_room(self, state: _Attempt, wanted: int) -> None:
        """Close the files that were not read for longest, so that so many more may be opened."""
        surplus = len(self._open) + wanted - self._settings.open_files
        for file, owner in list(self._open.items()) if surplus > 0 else ():
            if surplus <= 0:
                break
            if file.busy or file.retired_at is not None or owner is state:
                continue
            owner.following.give_up(file)
            self._close_unwanted(owner)
            surplus -= 1

    def _close_unwanted(self, state: _Attempt) -> None:
        while state.following.closing:
            file, fd = state.following.closing.pop()
            self._disk.close(fd)
            if file is not None:
                self._open.pop(file, None)

    def _leave(self, key: AttemptKey) -> None:
        """Follow an attempt no longer, and remember where its logs ended."""
        state = self._attempts.pop(key)
        self._growths.leave(key)
        kept = self._ends.get(key.job)
        if kept is None or AttemptKey.parse(kept.attempt).restart_count <= key.restart_count:
            self._ends[key.job] = state.following.positions()
            self._ends.move_to_end(key.job)
            while len(self._ends) > _ENDS_AT_MOST:
                self._ends.popitem(last=False)
        state.following.stop()
        self._close_unwanted(state)
        if state.errands:
            self._late.append(state)

    def _earlier(self, key: AttemptKey) -> Positions | None:
        """Where the logs of an earlier attempt of the job ended, if it is or was followed here."""
        living = [each for each in self._attempts if each.job == key.job and each.restart_count < key.restart_count]
        if living:
            newest = max(living, key=lambda each: each.restart_count)
            return self._attempts[newest].following.positions()
        kept = self._ends.get(key.job)
        if kept is None or AttemptKey.parse(kept.attempt).restart_count >= key.restart_count:
            return None
        return kept

    def _mount(self, path: str) -> object:
        """What a path would hang on: its device where known, else its root."""
        folder = path.rpartition("/")[0]
        if folder in self._devices:
            return self._devices[folder]
        try:
            return self._disk.root_of(path)
        except RefusedError:
            return path

    def _is_stuck(self, mount: object) -> bool:
        if mount in self._stuck and self._stuck[mount].hangs is None:
            del self._stuck[mount]
        return mount in self._stuck

    def _note_stuck(self, errand: Errand) -> None:
        hanging = errand.hangs
        if hanging is not None:
            self._stuck[hanging.mount] = errand

    def _learn_devices(self, look_result: Look) -> None:
        if len(self._devices) > _FOLDERS_AT_MOST:
            self._devices.clear()
        for sighting in look_result.sightings:
            device, _ = sighting.identity
            self._devices[sighting.path.rpartition("/")[0]] = device
            if device not in self._known_devices:  # mounted since
                self._known_devices.add(device)
                self._network = read_network_devices()

    def _patterns_to_look_at(self, state: _Attempt, now: float) -> list[str] | None:
        """The patterns to look at now; None: it is not time."""
        following = state.following
        devices = {device for device, _ in following.files} & self._network
        if not state.pace.may_look(now, network=bool(devices)):
            return None
        patterns = [pattern for pattern in following.labels.patterns if following.is_open_for_looks(pattern)]
        for device in devices:
            meter = self._meters.setdefault(device, Meter(self._settings.network_metadata_per_s, now))
            if not meter.take(len(patterns) + len(following.files), now):
                return None
        state.pace.looked(now)
        return patterns

    def _is_network(self, state: _Attempt) -> bool:
        return any(device in self._network for device, _ in state.following.files)

    def _late_s(self, state: _Attempt) -> float:
        return self._settings.network_late_s if self._is_network(state) else 0.0
