from __future__ import annotations

from relance.domain.findings import FindingKind
from relance.domain.views import Assignment
from relance.watching.checkpoints import from_text
from tests.unit.watching.rooms import Room, saved_lines


async def _saving() -> tuple[Room, Assignment]:
    """An attempt that has begun a save into /ckpt, after steps of half a second."""
    room = Room()
    job = room.assignment()
    room.server.want(job)
    await room.watcher.refresh()
    await room.train(job, 20)
    room.write(job, saved_lines(20, room.clock.now())[0])
    room.logs.grow("/ckpt")
    await room.quiet(job, 1.0)
    return room, job


async def _grow(room: Room, job: Assignment, duration_s: float) -> None:
    """The save writes, and nothing is said."""
    for _ in range(round(duration_s / 30)):
        room.logs.grow("/ckpt")
        await room.quiet(job, 30.0, every_s=5.0)


async def test_a_slow_save_is_no_hang_while_its_folder_grows() -> None:
    room, job = await _saving()

    await _grow(room, job, 5400)
    assert room.server.findings() == []
    await room.quiet(job, 1900, every_s=5.0)

    (found,) = room.server.findings()
    assert found.kind is FindingKind.HANG


async def test_the_folder_is_known_after_a_restart_of_the_watcher() -> None:
    room, job = await _saving()
    await _grow(room, job, 600)
    checkpoint = from_text(room.server.batches[-1].checkpoint)
    assert checkpoint is not None
    assert checkpoint.memory.save_folder == "/ckpt"

    room.new_watcher()
    await room.watcher.refresh()
    await _grow(room, job, 5400)

    assert room.server.findings() == []


async def test_a_folder_that_another_one_replaces_is_looked_at_no_more() -> None:
    room, job = await _saving()
    room.write(job, saved_lines(20, room.clock.now())[0].replace("/ckpt", "/elsewhere"))

    await _grow(room, job, 2400)

    assert {found.kind for found in room.server.findings()} == {FindingKind.HANG}


async def test_a_path_that_no_file_system_would_take_is_no_folder() -> None:
    room, job = await _saving()
    room.write(job, saved_lines(20, room.clock.now())[0].replace("/ckpt", "/" + "x" * 5000))
    await room.quiet(job, 30.0, every_s=5.0)

    checkpoint = from_text(room.server.batches[-1].checkpoint)

    assert checkpoint is not None
    assert checkpoint.memory.save_folder == "/ckpt"
