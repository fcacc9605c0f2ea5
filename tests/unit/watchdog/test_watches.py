from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from relance.domain.deeds import SPOOL_FOLDER, DeedState
from relance.domain.ledgers import Decided, Entry, Verb
from relance.domain.stages import Stage
from relance.domain.views import Hold, JobState
from relance.slurm.errors import RefusedError, SilentError, UnreadableError
from relance.watchdog.alarms import Subject
from relance.watchdog.ledgers import LEDGER_NAME, STOP_NAME
from relance.watchdog.settings import Rules
from relance.watchdog.spools import Spool
from relance.watchdog.watches import READ_AGE_S
from tests.unit.watchdog.grounds import DUE, after, began, deed, did, failed, held, intended, key, taken
from tests.unit.watchdog.stands import Stand, row_of

HOLD = (began(), intended(Verb.REQUEUE_HELD), did(Verb.REQUEUE_HELD))
REQUEUE, RELEASE = "scontrol requeue 17", "scontrol release 17"


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path)


async def test_a_taken_attempt_is_requeued_once_and_never_again(stand: Stand) -> None:
    stand.write(taken())
    assert await stand.rounds(30) == [REQUEUE]
    assert stand.states == ["done"]
    assert stand.subjects == set()
    stand.new_watch()
    assert await stand.rounds(30) == []


async def test_a_hold_is_released_once_and_a_persons_later_hold_stays(stand: Stand) -> None:
    stand.write(*HOLD)
    stand.show(held())
    assert await stand.rounds(3) == [RELEASE]
    stand.show(held(reason="JobHeldUser"))
    assert await stand.rounds(30) == []


async def test_a_copy_that_comes_while_another_job_is_seen_to_is_seen_before_the_next_requeue(stand: Stand) -> None:
    stand.write(taken(key(), key("18")))
    stand.show(failed("18"))
    copy = failed("19", name="train-18", state=JobState.PENDING, started_at=None, ended_at=None,
                  submitted_at=after(1241), first_submitted_at=after(1241))  # fmt: skip

    def meanwhile() -> None:
        stand.show(copy)
        stand.clock.advance(3.0)

    stand.scheduler.before["send"] = meanwhile
    assert await stand.rounds() == [REQUEUE]
    assert stand.states == ["done", "not_sent"]
    assert await stand.rounds(5) == []
    assert "run twice" in stand.alarms.now[Subject.LEFT]


async def test_where_the_queue_cannot_be_read_anew_nothing_more_is_requeued(stand: Stand) -> None:
    stand.write(taken(key(), key("18")))
    stand.show(failed("18"))

    def meanwhile() -> None:
        stand.scheduler.fails["jobs"] = SilentError("no answer")
        stand.clock.advance(3.0)

    stand.scheduler.before["send"] = meanwhile
    assert await stand.rounds() == [REQUEUE]
    assert stand.states == ["done"]
    assert "is not known: no answer" in stand.alarms.now[Subject.LEFT]


@pytest.mark.parametrize("stage", [Stage.OBSERVE, Stage.APPROVE])
async def test_below_act_what_it_would_do_is_written_once_and_nothing_is_sent(tmp_path: Path, stage: Stage) -> None:
    stand = Stand(tmp_path, Rules(stage=stage))
    stand.write(taken(key("18")), *HOLD)
    stand.show(held(), failed("18"))
    assert await stand.rounds(20) == []
    assert stand.states == ["would", "would"]
    told = {deed.argv for deed in stand.watch.spool.deeds.values()}
    assert told == {tuple(RELEASE.split()), ("scontrol", "requeue", "18")}
    assert stand.mark.stage is stage


async def test_at_stage_off_nothing_is_asked_and_nothing_said(tmp_path: Path) -> None:
    stand = Stand(tmp_path, Rules(stage=Stage.OFF))
    stand.write(taken())
    assert await stand.rounds(3) == []
    assert (stand.scheduler.asked, stand.states) == ([], [])


@pytest.mark.parametrize("trouble", ["missing", "damaged", "old", "unreadable"])
async def test_without_a_ledger_to_rely_on_it_touches_nothing_and_alarms(stand: Stand, trouble: str) -> None:
    stand.write(taken(), *HOLD)
    stand.show(failed())
    path = stand.folder / LEDGER_NAME
    if trouble == "missing":
        path.unlink()
    elif trouble == "damaged":
        path.write_bytes(path.read_bytes().replace(b"Taken", b"Tekan"))
    elif trouble == "old":
        stand.beat(86_401)
    else:
        path.unlink()
        path.mkdir()
    assert await stand.rounds(5) == []
    assert stand.states == []
    assert stand.subjects == {Subject.LEDGER_OLD if trouble == "old" else Subject.LEDGER}
    assert stand.mark.alarms


async def test_a_file_stop_stops_it_and_names_what_is_left(stand: Stand) -> None:
    stand.write(*HOLD)
    stand.show(held())
    (stand.folder / STOP_NAME).touch()
    assert await stand.rounds(3) == []
    assert stand.subjects == {Subject.STOP, Subject.LEFT}
    (stand.folder / STOP_NAME).unlink()
    assert await stand.rounds() == [RELEASE]
    assert stand.subjects == set()


async def test_a_file_stop_that_comes_with_the_last_look_stops_the_command(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.before["job"] = (stand.folder / STOP_NAME).touch
    assert await stand.rounds() == []
    assert stand.states == ["not_sent"]


async def test_the_queue_is_asked_once_a_round_and_a_job_once_before_its_command(stand: Stand) -> None:
    stand.write(taken())
    await stand.rounds(4)
    assert stand.scheduler.asked.count("jobs") == 4
    assert stand.scheduler.asked.count("job") == 1
    assert stand.scheduler.asked.count("settings") == 1


async def test_with_nothing_to_watch_over_the_scheduler_is_asked_once_a_minute(stand: Stand) -> None:
    stand.write()
    await stand.rounds(25)
    assert stand.scheduler.asked.count("jobs") == 3


@pytest.mark.parametrize(
    "change",
    [
        {"state": JobState.RUNNING},
        {"restart_count": 1},
        {"submitted_at": after(1239)},
        {"state": JobState.PENDING, "restart_count": 1, "submitted_at": after(1239)},
        {"state": JobState.CANCELLED},
    ],
)
async def test_what_changed_between_queue_and_command_is_left_alone(stand: Stand, change: dict[str, object]) -> None:
    stand.write(taken())
    stand.scheduler.before["job"] = lambda: stand.show(failed(**change))
    assert await stand.rounds(3) == []
    assert stand.states == ["not_sent"]


async def test_a_job_that_is_forgotten_between_queue_and_command_is_left_alone(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.before["job"] = stand.scheduler.shown.clear
    assert await stand.rounds(3) == []
    assert stand.states == ["not_sent"]


@pytest.mark.parametrize("entry", [Decided(attempt=str(key()), reason="stop", at=DUE), began()])
async def test_a_decision_or_an_action_that_comes_with_the_last_look_stops_the_command(
    stand: Stand, entry: Entry
) -> None:
    stand.write(taken())

    def wake_up() -> None:
        stand.append(entry)
        stand.beat(1)

    stand.scheduler.before["attempts"] = wake_up
    assert await stand.rounds() == []
    assert stand.states == ["not_sent"]


async def test_no_command_follows_a_look_that_took_a_second(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.before["job"] = lambda: stand.clock.advance(READ_AGE_S)
    assert await stand.rounds() == []
    assert stand.states == ["not_sent"]


async def test_after_it_was_stopped_for_minutes_it_reads_anew_before_a_command(stand: Stand) -> None:
    stand.write(taken())

    def sleep() -> None:
        stand.scheduler.before.clear()
        stand.clock.advance(300)
        stand.show(failed(state=JobState.RUNNING, restart_count=1, submitted_at=after(1250)))

    stand.scheduler.rows["17"] = (row_of(failed()),)
    stand.scheduler.before["attempts"] = sleep
    assert await stand.rounds(3) == []
    assert stand.states == ["not_sent"]


async def test_no_answer_to_a_command_is_settled_by_looking_and_never_by_doing_again(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.fails["send"] = SilentError("no answer")
    assert await stand.rounds(1) == [REQUEUE]
    assert stand.states == ["silent"]
    assert await stand.rounds(30) == []
    assert stand.states == ["done"]


async def test_a_command_that_was_lost_is_not_done_again_but_told(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.fails["send"] = SilentError("it never arrived")
    assert await stand.rounds(1) == [REQUEUE]
    assert await stand.rounds(30) == []
    assert stand.states == ["lost"]
    assert Subject.REFUSED in stand.subjects


async def test_a_watchdog_that_was_killed_after_its_intent_looks_and_does_not_do_it_again(stand: Stand) -> None:
    stand.write(taken())
    before = Spool(stand.folder)
    before.read(DUE)
    before.write(deed(DeedState.INTENDED, at=DUE, answered_at=None))
    assert await stand.rounds(30) == []
    assert stand.states == ["lost"]


async def test_a_release_that_was_lost_is_done_again_after_a_look(stand: Stand) -> None:
    stand.write(*HOLD)
    stand.show(held())
    stand.scheduler.fails["send"] = SilentError("it never arrived")
    assert await stand.rounds(1) == [RELEASE]
    stand.scheduler.fails.clear()
    assert await stand.rounds(2) == []
    assert await stand.rounds(3) == [RELEASE]
    assert stand.states == ["lost", "done"]


async def test_a_refusal_is_told(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.fails["send"] = RefusedError("no", text="Access/permission denied")
    assert await stand.rounds(10) == [REQUEUE]
    assert stand.states == ["refused"]
    assert "Access/permission denied" in stand.alarms.now[Subject.REFUSED]


async def test_a_scheduler_that_does_not_answer_is_an_alarm_and_nothing_else(stand: Stand) -> None:
    stand.write(taken())
    for error in (SilentError("no answer"), UnreadableError("mangled")):
        stand.scheduler.fails["jobs"] = error
        assert await stand.rounds(3) == []
        assert stand.subjects == {Subject.SCHEDULER}
    stand.scheduler.fails.clear()
    assert await stand.rounds() == [REQUEUE]
    assert stand.subjects == set()


async def test_a_last_look_that_is_not_answered_lets_nothing_be_sent(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.fails["job"] = SilentError("no answer")
    assert await stand.rounds() == []
    assert stand.states == ["not_sent"]


async def test_a_step_that_somebody_cancelled_is_asked_for_once_and_the_job_left(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.rows["17"] = (row_of(failed(), state="CANCELLED", cancelled_by=1001),)
    assert await stand.rounds(5) == []
    assert stand.scheduler.asked.count("attempts") == 1
    assert stand.states == []
    assert "cancelled by uid 1001" in stand.alarms.now[Subject.LEFT]


async def test_accounting_that_cannot_be_read_is_an_alarm_and_the_job_is_left(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.fails["attempts"] = SilentError("slurmdbd is away")
    assert await stand.rounds(2) == []
    assert {Subject.ACCOUNTING, Subject.LEFT} == stand.subjects
    del stand.scheduler.fails["attempts"]
    assert await stand.rounds() == [REQUEUE]
    assert stand.subjects == set()


async def test_without_minjobage_nothing_is_requeued_but_holds_are_released(stand: Stand) -> None:
    stand.write(taken(key("18")), *HOLD)
    stand.show(held(), failed("18"))
    stand.scheduler.age_s = None
    assert await stand.rounds(3) == [RELEASE]
    assert Subject.SETTINGS in stand.subjects


async def test_minjobage_that_was_learnt_holds_while_slurm_does_not_tell_it(stand: Stand) -> None:
    stand.write()
    await stand.rounds()
    stand.scheduler.fails["settings"] = SilentError("no answer")
    stand.clock.advance(300)
    stand.write(taken())
    assert await stand.rounds() == [REQUEUE]


async def test_a_spool_that_is_full_or_broken_lets_nothing_be_done(stand: Stand) -> None:
    stand.write(taken())
    (stand.folder / SPOOL_FOLDER).mkdir()
    (stand.folder / SPOOL_FOLDER / "dog-1.json").write_text("nonsense")
    assert await stand.rounds(2) == []
    assert stand.subjects == {Subject.SPOOL}


async def test_an_error_of_ours_is_an_alarm_and_the_next_round_looks_anew(stand: Stand) -> None:
    stand.write(taken())

    def fail() -> None:
        stand.scheduler.before.clear()
        raise RuntimeError("unheard of")

    stand.scheduler.before["jobs"] = fail
    assert await stand.rounds() == []
    assert stand.subjects == {Subject.ERROR}
    assert await stand.rounds() == [REQUEUE]
    assert stand.subjects == set()


async def test_a_task_of_an_array_is_named_so_that_the_others_are_left_alone(stand: Stand) -> None:
    stand.write(taken())
    stand.show(failed(array="17", array_task=3))
    stand.scheduler.before["send"] = lambda: stand.scheduler.shown.update({"17_3": failed()})
    assert await stand.rounds() == ["scontrol requeue 17_3"]


async def test_its_mark_says_each_round_how_it_stands(tmp_path: Path) -> None:
    stand = Stand(tmp_path, Rules(stage=Stage.ACT, partitions=("gpu",)))
    stand.write()
    await stand.rounds()
    mark = stand.mark
    assert (mark.cluster, mark.stage, mark.partitions, mark.alarms) == ("alpha", Stage.ACT, ("gpu",), ())
    await stand.rounds()
    assert (stand.mark.at - mark.at).total_seconds() == 5.0


async def test_each_change_of_an_alarm_is_logged_once_as_json(stand: Stand) -> None:
    await stand.rounds(5)
    stand.write()
    await stand.rounds(5)
    alarms = [(line["event"], line["subject"]) for line in stand.said if "subject" in line]
    assert alarms == [("alarm", "ledger"), ("alarm cleared", "ledger")]


async def test_told_to_end_while_a_command_is_out_it_notes_the_answer_first(stand: Stand) -> None:
    stand.write(taken())
    is_out, may_go = asyncio.Event(), asyncio.Event()
    sending = stand.scheduler.send

    async def slow(argv: tuple[str, ...]) -> None:
        is_out.set()
        await may_go.wait()
        await sending(argv)

    stand.scheduler.send = slow  # type: ignore[method-assign,assignment]  # a slow scheduler
    running = asyncio.create_task(stand.watch.run())
    await is_out.wait()
    running.cancel()
    await asyncio.sleep(0)
    may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stand.states == ["done"]


async def test_told_to_end_before_the_command_is_out_it_sends_nothing(stand: Stand) -> None:
    stand.write(taken())
    is_looking, may_go = asyncio.Event(), asyncio.Event()
    looking = stand.scheduler.job

    async def slow(raw_id: str, wanted: dict[str, object]) -> object:
        is_looking.set()
        await may_go.wait()
        return await looking(raw_id, wanted)  # type: ignore[arg-type]  # passed on as it came

    stand.scheduler.job = slow  # type: ignore[method-assign,assignment]  # a slow scheduler
    running = asyncio.create_task(stand.watch.run())
    await is_looking.wait()
    running.cancel()
    await asyncio.sleep(0)
    may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (stand.scheduler.sent, stand.states) == ([], ["not_sent"])


async def test_a_hold_that_the_controller_takes_up_again_is_its_own(stand: Stand) -> None:
    stand.write(*HOLD)
    stand.show(held())
    stand.append(intended(Verb.RELEASE, 2, at=DUE))
    assert await stand.rounds(3) == []
    stand.show(held(hold=Hold.NONE))
    assert await stand.rounds(30) == []


async def test_what_was_refused_is_told_while_the_job_is_there_and_for_an_hour(stand: Stand) -> None:
    stand.write(taken())
    stand.scheduler.fails["send"] = RefusedError("no", text="Access/permission denied")
    await stand.rounds(2)
    assert stand.subjects == {Subject.REFUSED}
    stand.clock.advance(3600)
    await stand.rounds(2)
    assert stand.subjects == set()


async def test_told_to_end_it_ends_also_when_the_answer_cannot_be_written(stand: Stand) -> None:
    stand.write(taken())
    is_out = asyncio.Event()

    async def lost(argv: tuple[str, ...]) -> None:
        is_out.set()
        await asyncio.sleep(0.05)
        stand.watch.spool.folder.rename(stand.folder / "gone")

    stand.scheduler.send = lost  # type: ignore[method-assign,assignment]  # the disk goes meanwhile
    running = asyncio.create_task(stand.watch.run())
    await is_out.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_folder_that_takes_no_mark_is_said_once(stand: Stand) -> None:
    stand.write()
    (stand.folder / "watchdog.json.new").mkdir()
    await stand.rounds(5)
    assert [line["event"] for line in stand.said].count("no mark can be left") == 1
