from __future__ import annotations

import asyncio
import itertools
import json
import re
from dataclasses import replace

import pytest

from relance.domain.findings import Certainty, FindingKind, Sight, Sign
from relance.domain.views import Assignment
from relance.rules import load_pack
from relance.testing.memory_sources import MemoryLogs, MemorySource
from relance.watching.checkpoints import BYTES_AT_MOST, from_text
from relance.watching.senses import Senses
from relance.watching.watchers import Watcher
from tests.unit.watching.rooms import PACK, Room, saved_lines, step_line

TRACEBACK = (
    "[rank3]: Traceback (most recent call last):",
    '[rank3]:   File "/code/train.py", line 12, in step',
    "[rank3]: KeyError: 'record 17'",
)
KILLED = "srun: error: n2: task 3: Killed"


async def test_a_killed_rank_is_told_within_two_seconds_with_its_evidence() -> None:
    room, job = await _training()
    room.write(job, *TRACEBACK, KILLED)
    began = room.clock.now()

    while not room.server.findings():
        await room.quiet(job, 0.2)
    (found,) = room.server.findings()

    assert (room.clock.now() - began).total_seconds() <= 2.0
    assert (found.kind, found.certainty, found.signs) == (
        FindingKind.CRASH,
        Certainty.CONFIRMED,
        frozenset({Sign.PROCESS_DEATH}),
    )
    assert {hit.rank for hit in found.hits} == {3}
    assert found.progress is not None
    assert found.progress.step == 20
    assert [entry.sight for entry in found.coverage] == [Sight.SEEN]


async def test_findings_and_the_checkpoint_that_goes_with_them_are_one_batch() -> None:
    room, job = await _training()
    room.write(job, KILLED)
    await room.quiet(job, 3.0)

    (batch,) = [batch for batch in room.server.batches if batch.findings]

    checkpoint = from_text(batch.checkpoint)
    assert checkpoint is not None
    assert checkpoint.memory.watch.crash.findings == 1
    assert checkpoint.positions["memory"]["job.out"] == len(room.logs.logs[0].data)


async def test_while_nothing_is_wrong_the_checkpoint_goes_with_progress_now_and_then() -> None:
    room, job = await _training()
    room.server.batches.clear()

    await room.train(job, 30, every_s=2.0)

    kept = [batch.as_of for batch in room.server.batches if batch.checkpoint is not None]
    assert sum(batch.progress is not None for batch in room.server.batches) == 30
    assert 5 <= len(kept) <= 6
    await room.watcher.stop()
    last = from_text(room.server.batches[-1].checkpoint)
    assert last is not None
    assert last.positions["memory"]["job.out"] == len(room.logs.logs[0].data)


async def test_of_an_attempt_in_doubt_the_checkpoint_goes_with_all() -> None:
    room, job = await _training()
    await room.quiet(job, 20.0)
    assert room.server.findings()
    room.server.batches.clear()

    await room.train(job, 10, every_s=2.0)

    assert len(room.server.batches) >= 9
    assert all(batch.checkpoint is not None for batch in room.server.batches)


async def test_much_that_was_read_since_the_last_checkpoint_brings_the_next() -> None:
    room, job = await _training(unkept_bytes=10_000)
    room.server.batches.clear()

    room.write(job, *["nothing to see here"] * 1000)
    room.clock.advance(1.0)
    await room.tick(job)

    (batch,) = room.server.batches
    assert batch.checkpoint is not None


async def test_a_frightening_line_while_training_goes_on_opens_nothing() -> None:
    room, job = await _training()
    for _ in range(10):
        room.write(job, *TRACEBACK, "srun: error: n2: task 3: Killed")
        await room.tick(job)
        await room.train(job, 4)

    await room.quiet(job, 10.0)

    assert room.server.findings() == []


async def test_silence_is_suspected_and_confirmed_by_the_owners_limit() -> None:
    room, job = await _training(hang_after_s=20.0)

    await room.quiet(job, 30.0)

    assert [(found.kind, found.certainty) for found in room.server.findings()] == [
        (FindingKind.HANG, Certainty.SUSPECTED),
        (FindingKind.HANG, Certainty.CONFIRMED),
    ]


async def test_a_source_that_is_behind_gives_no_silence() -> None:
    room, job = await _training(hang_after_s=20.0)
    room.source.is_behind = True

    await room.quiet(job, 300.0, every_s=1.0)

    assert room.server.findings() == []


async def test_a_start_below_the_durable_checkpoint_is_told() -> None:
    room = Room()
    job = room.assignment(restart_count=1, durable_before=400)
    await _follow(room, job)

    await room.train(job, 2)

    assert [found.kind for found in room.server.findings()] == [FindingKind.DID_NOT_RESUME]


async def test_hardware_signs_come_from_the_kernel_log_of_a_node_only() -> None:
    room, job = await _training()
    xid = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    room.write(job, xid)
    await room.train(job, 3)
    assert room.server.findings() == []

    room.write(job, f"2026-01-01T00:00:10+00:00 n1 kernel: {xid}", file="/logs/n1.log", node="n1")
    await room.tick(job)
    await room.train(job, 3)

    (found,) = room.server.findings()
    assert (found.kind, found.certainty) == (FindingKind.NODE_HEALTH, Certainty.SUSPECTED)
    assert {hit.node for hit in found.hits} == {"n1"}


async def test_a_watcher_that_is_started_again_goes_on_and_tells_nothing_twice() -> None:
    room, job = await _training()
    room.write(job, *TRACEBACK)
    await room.tick(job)
    room.clock.advance(1.0)
    await room.watcher.deliver()
    room.new_watcher()  # the old one was killed
    await room.watcher.refresh()
    room.write(job, KILLED)
    await room.quiet(job, 5.0)
    first = room.server.findings()
    room.new_watcher()
    await room.watcher.refresh()
    await room.quiet(job, 5.0)

    (found,) = room.server.findings()
    assert [found] == first
    assert {hit.rule for hit in found.hits} >= {"srun-task-killed"}
    assert len(found.hits) >= 2
    assert sum(bool(batch.findings) for batch in room.server.batches) == 1


async def test_what_was_found_since_the_last_checkpoint_is_found_again_with_the_same_id() -> None:
    room, job = await _training()
    room.clock.advance(1.0)
    await room.watcher.deliver()
    kept = dict(room.server.checkpoints)
    room.write(job, KILLED)
    await room.quiet(job, 3.0)
    (found,) = room.server.findings()

    room.server.checkpoints = kept
    room.server.batches.clear()
    room.new_watcher()
    await room.watcher.refresh()
    await room.quiet(job, 3.0)

    assert [again.id for again in room.server.findings()] == [found.id]


async def test_while_the_server_is_away_findings_are_kept_and_reading_stops_at_a_bound() -> None:
    room, job = await _training(ahead_bytes=200_000)
    room.server.is_away = True
    room.write(job, KILLED)
    await room.quiet(job, 5.0)
    for _ in range(20):
        room.write(job, *("noise " * 20 for _ in range(1000)))
        await room.tick(job)
    read = room.source.offset(job.attempt)
    assert read < len(room.logs.logs[0].data) // 2
    assert room.server.findings() == []

    room.server.is_away = False
    for _ in range(200):
        await room.quiet(job, 1.0)
        await room.watcher.deliver()

    assert [found.kind for found in room.server.findings()][:2] == [FindingKind.CRASH, FindingKind.HANG]
    assert room.source.offset(job.attempt) == len(room.logs.logs[0].data)


async def test_tries_to_reach_a_server_that_is_away_become_rarer() -> None:
    room, job = await _training()
    room.server.is_away = True
    room.server.tried_at.clear()
    room.write(job, KILLED)
    await room.quiet(job, 60.0)

    gaps = [later - earlier for earlier, later in itertools.pairwise(room.server.tried_at)]
    assert gaps[0] < 1.0
    assert max(gaps) >= 15.0
    assert len(gaps) < 12


async def test_one_attempts_trouble_is_noted_and_stops_no_other() -> None:
    room = Room()
    bad, good = room.assignment("7"), room.assignment("8")
    await _follow(room, bad, good)
    room.source.fails = {bad.attempt}
    await room.train(good, 20)
    room.write(good, KILLED)
    for _ in range(20):
        await room.quiet(bad, 0.2)
        await room.tick(good)

    assert [found.attempt for found in room.server.findings()] == [good.attempt]
    coverage = [batch.coverage for batch in room.server.batches if batch.attempt == bad.attempt][-1]
    assert any(entry.source == "watcher" and "no such thing" in entry.note for entry in coverage)


async def test_a_source_that_fails_costs_no_line_of_another() -> None:
    room = Room()
    job = room.assignment()
    other = MemorySource(MemoryLogs(), room.clock, "other")
    room.watcher = Watcher(
        backend=room.server,
        senses=Senses(logs=(room.source, other)),
        pack=PACK,
        clock=room.clock,
        settings=room.settings,
    )
    await _follow(room, job)
    await room.train(job, 20)
    other.fails = {job.attempt}
    room.write(job, KILLED)
    await room.quiet(job, 1.0)
    other.fails = set()
    await room.quiet(job, 60.0)

    assert FindingKind.CRASH in {found.kind for found in room.server.findings()}


async def test_the_last_part_of_the_logs_is_kept_when_something_was_found_and_at_the_end() -> None:
    room, job = await _training()
    room.write(job, KILLED)
    await room.quiet(job, 3.0)
    assert [attachment.data[-len(KILLED) - 1 :] for attachment in room.server.attachments()] == [f"{KILLED}\n".encode()]

    room.write(job, "last words")
    room.server.want(replace(job, ended_at=room.clock.now()))
    await room.watcher.refresh()
    await room.quiet(job, 10.0)

    assert len(room.server.attachments()) == 2
    assert room.server.attachments()[-1].data.endswith(b"last words\n")


async def test_the_last_part_of_the_logs_is_kept_when_the_server_asks() -> None:
    room, job = await _training()
    room.server.want(replace(job, keep_tail=True))
    await room.watcher.refresh()

    await room.quiet(job, 3.0)

    assert len(room.server.attachments()) == 1


async def test_the_end_of_the_logs_is_kept_before_the_word_that_lets_a_restart_begin() -> None:
    room, job = await _training()
    room.write(job, "last words")
    room.server.want(replace(job, ended_at=room.clock.now(), keep_tail=True))
    await room.watcher.refresh()
    await room.quiet(job, 10.0)

    told = next(index for index, batch in enumerate(room.server.batches) if batch.read_to_end)
    kept = [index for index, batch in enumerate(room.server.batches) for each in batch.attachments
            if each.data.endswith(b"last words\n")]  # fmt: skip
    assert kept
    assert kept[0] < told


async def test_progress_is_handed_over_about_once_a_second_and_rarely_while_nothing_happens() -> None:
    room, job = await _training()
    room.server.batches.clear()
    await room.train(job, 40, every_s=0.25)
    busy = len(room.server.batches)
    room.server.batches.clear()
    await room.quiet(job, 10.0)

    assert 8 <= busy <= 12
    assert len(room.server.batches) <= 2


async def test_that_the_logs_were_read_to_the_end_of_an_attempt_is_told_at_once() -> None:
    room, job = await _training()
    await room.quiet(job, 12.0)
    ended_at = room.clock.now()
    room.server.want(replace(job, ended_at=ended_at))
    await room.watcher.refresh()
    assert not any(batch.read_to_end for batch in room.server.batches)
    room.server.batches.clear()

    await room.quiet(job, 0.4)
    assert any(entry.up_to is not None and entry.up_to >= ended_at for entry in room.server.batches[0].coverage)
    assert room.server.batches[0].read_to_end
    told = len(room.server.batches)
    await room.quiet(job, 0.4)
    assert len(room.server.batches) == told


async def test_checkpoints_of_the_training_are_part_of_the_progress() -> None:
    room, job = await _training()
    room.write(job, *saved_lines(20, room.clock.now()))
    await room.train(job, 4)
    room.clock.advance(1.0)
    await room.watcher.deliver()

    progress = room.server.batches[-1].progress

    assert progress is not None
    assert (progress.checkpoint_durable, progress.step, progress.median_step_s) == (20, 24, 0.5)


async def test_an_own_step_pattern_is_used_and_a_broken_one_is_said() -> None:
    room = Room()
    own = room.assignment("7", progress_pattern=r"at step (?P<step>\d+)")
    broken = room.assignment("8", progress_pattern=r"at step (\d+)")
    await _follow(room, own, broken)
    room.write(own, "at step 5", "at step 6")
    room.write(broken, step_line(9, room.clock.now()))
    for job in (own, broken):
        await room.tick(job)

    progress = {batch.attempt: batch.progress for batch in room.server.batches}
    coverage = {batch.attempt: batch.coverage for batch in room.server.batches}
    assert [progress[job.attempt].step for job in (own, broken)] == [6, 9]  # type: ignore[union-attr]
    assert [entry.source for entry in coverage[broken.attempt]] == ["progress pattern", "memory"]


async def test_that_steps_were_learned_is_said_with_what_is_known_of_the_attempt() -> None:
    room = Room()
    job = room.assignment("7")
    await _follow(room, job)
    for number in range(20):
        room.write(job, f"it {number} | nll 3.{number}")
        room.clock.advance(2.0)
        await room.tick(job)

    last = room.server.batches[-1]
    assert last.progress is not None
    assert last.progress.is_learned
    (said,) = [entry for entry in last.coverage if entry.source == "progress"]
    assert (said.sight, "`it N | nll N`" in said.note) == (Sight.SEEN, True)


async def test_an_attempt_that_another_has_replaced_has_its_last_word() -> None:
    room, job = await _training()
    room.write(job, *TRACEBACK)
    await room.tick(job)
    room.server.want(room.assignment(restart_count=1))

    await room.watcher.refresh()

    (found,) = room.server.findings()
    assert (found.attempt, found.certainty) == (job.attempt, Certainty.SUSPECTED)


async def test_what_a_left_attempt_had_found_waits_for_a_server_that_is_away() -> None:
    room, job = await _training()
    room.write(job, *TRACEBACK)
    await room.tick(job)
    room.server.refused = {job.attempt}
    room.server.want(room.assignment(restart_count=1))
    await room.watcher.refresh()
    assert room.server.findings() == []

    room.server.refused = set()
    room.clock.advance(20.0)
    await room.watcher.deliver()

    assert [found.attempt for found in room.server.findings()] == [job.attempt]


async def test_an_attempt_that_is_no_longer_wanted_while_it_runs_is_left_in_silence() -> None:
    room, job = await _training()
    room.write(job, *TRACEBACK)
    await room.tick(job)
    room.server.want()

    await room.watcher.refresh()

    assert room.server.findings() == []


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
async def test_a_clock_that_is_set_makes_no_hang_and_hides_none(by_s: float) -> None:
    room, job = await _training(hang_after_s=20.0)
    room.clock.step(by_s)
    await room.quiet(job, 5.0)
    assert room.server.findings() == []

    await room.quiet(job, 20.0)

    assert [found.certainty for found in room.server.findings()] == [Certainty.SUSPECTED, Certainty.CONFIRMED]


async def test_a_storm_of_lines_stays_within_the_bounds_of_a_checkpoint() -> None:
    room, job = await _training()
    for rank in range(256):
        room.write(job, *(line.replace("rank3", f"rank{rank}") + " " + "x" * 1500 for line in TRACEBACK))
    room.write(job, *(KILLED for _ in range(3000)))
    for _ in range(30):
        await room.quiet(job, 0.2)

    assert all(len(batch.checkpoint or "") <= BYTES_AT_MOST for batch in room.server.batches)
    assert sum(len(json.dumps(batch.checkpoint)) > 300_000 for batch in room.server.batches) == 0
    (found, *_) = room.server.findings()
    assert found.counts["srun-task-killed"] == 3000
    assert len(found.hits) <= 200


async def test_it_runs_by_itself_until_it_is_ended() -> None:
    room = Room()
    job = room.assignment()
    room.server.want(job)
    running = asyncio.create_task(room.watcher.run())
    room.write(job, *(step_line(step, room.clock.now()) for step in range(1, 30)))
    room.write(job, KILLED)
    for _ in range(2000):
        await asyncio.sleep(0)
        room.clock.advance(0.05)
        room.logs.changed.add(job.attempt)
        if room.server.findings():
            break
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert [found.kind for found in room.server.findings()] == [FindingKind.CRASH]


async def test_it_is_built_from_ports_alone() -> None:
    room = Room()
    watcher = Watcher(
        backend=room.server, senses=Senses(logs=()), pack=load_pack({}), clock=room.clock, settings=room.settings
    )
    await watcher.refresh()
    await watcher.stop()


async def _follow(room: Room, *jobs: Assignment) -> None:
    room.server.want(*jobs)
    await room.watcher.refresh()


async def _training(hang_after_s: float | None = None, **settings: int) -> tuple[Room, Assignment]:
    room = Room(**settings)
    job = room.assignment(hang_after_s=hang_after_s)
    await _follow(room, job)
    await room.train(job, 20)
    return room, job


async def test_sources_are_told_of_a_format_of_progress_that_was_learned() -> None:
    room = Room()
    job = room.assignment()
    room.server.want(job)
    await room.watcher.refresh()
    for number in range(1, 60):
        room.write(job, f"trained on minibatch {number}, all is well")
        await room.tick(job)
        room.clock.advance(5.0)
    assert re.search(room.source.learned[job.attempt].encode(), b"trained on minibatch 77, all is well")
    assert any("steps are learned" in entry.note for entry in room.server.batches[-1].coverage)
