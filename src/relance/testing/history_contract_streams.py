"""The contract of streams: versions, positions, records, and values that come back as they went in."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from relance.domain.events import Event, FindingReported
from relance.domain.incidents import ImpossibleEventError
from relance.domain.records import JobRecord, NodeRecord, fold, new_record
from relance.domain.streams import Recorded, Stream
from relance.ports.histories import Append, ConflictError, NotUniqueError
from relance.testing.appending import OpenHistory, append, refusal
from relance.testing.history_values import (
    NOON,
    after,
    change_seen,
    finding,
    job_key,
    job_seen,
    job_stream,
    node_events,
    opening,
    stage_set,
    whole_story,
)

STREAM = job_stream()
AWKWARD_TEXTS = (
    "",
    "Ünïcödé 😀 训练",
    "tab\tnewline\nnul\x00bell\x07",
    "quote ' \" ` \\ %s %(x)s :name ? ;--",
    "bytes that are no text: \udc80\udcff",
    " spaces around ",
)


class StreamContract:
    """Append, load, read."""

    async def test_a_stream_that_does_not_exist_is_empty(self, open_history: OpenHistory) -> None:
        history = await open_history()
        snapshot = await history.load(STREAM)
        assert (snapshot.version, snapshot.record, snapshot.wake_at) == (0, new_record(STREAM.name), None)
        assert await history.read(STREAM) == ()
        assert await history.follow(0) == ()
        assert await history.head() == 0

    async def test_events_get_versions_in_their_stream_and_positions_in_the_history(
        self, open_history: OpenHistory
    ) -> None:
        history = await open_history()
        first = await append(history, STREAM, job_seen(), change_seen("a"), now=after(1))
        other = await append(history, job_stream("18"), job_seen("18"), now=after(2))
        third = await append(history, STREAM, change_seen("b"), now=after(3))
        stored = (*first, *other, *third)
        assert [item.position for item in stored] == [1, 2, 3, 4]
        assert [item.version for item in stored] == [1, 2, 1, 3]
        assert [item.recorded_at for item in stored] == [after(1), after(1), after(2), after(3)]
        assert await history.follow(0) == stored
        assert await history.read(STREAM) == (*first, *third)
        assert await history.read(STREAM, after_version=2) == third
        assert await history.head() == 4

    async def test_every_event_comes_back_as_it_went_in(self, open_history: OpenHistory) -> None:
        history = await open_history()
        stored = await append(history, STREAM, *whole_story())
        stored += await append(history, Stream.of_node("alpha", "n1"), *node_events())
        stored += await append(history, Stream.of_cluster("alpha"), stage_set())
        assert await (await open_history()).follow(0) == stored

    async def test_the_record_is_the_fold_of_the_events(self, open_history: OpenHistory) -> None:
        history = await open_history()
        events: dict[Stream, tuple[Event, ...]] = {
            STREAM: whole_story(),
            Stream.of_node("alpha", "n1"): node_events(),
            Stream.of_cluster("alpha"): (stage_set(),),
        }
        for stream, story in events.items():
            for event in story:
                await append(history, stream, event)
        for either in (history, await open_history()):
            for stream, story in events.items():
                snapshot = await either.load(stream)
                assert snapshot.version == len(story)
                assert snapshot.record == fold(stream.name, story)

    async def test_an_append_to_another_version_is_a_conflict_and_stores_nothing(
        self, open_history: OpenHistory
    ) -> None:
        history = await open_history()
        await append(history, STREAM, job_seen(), change_seen("a"))
        for version in (0, 1, 3):
            batch = Append(stream=STREAM, expected_version=version, events=(change_seen("late"),), wake_at=after(9))
            await refusal(ConflictError, history.append(batch, NOON))
        ahead = Append(stream=job_stream("18"), expected_version=1, events=(job_seen("18"),))
        await refusal(ConflictError, history.append(ahead, NOON))
        assert await history.head() == 2
        assert (await history.load(STREAM)).wake_at is None
        assert (await history.load(job_stream("18"))).version == 0

    async def test_an_append_that_rests_on_other_streams_is_a_conflict_when_one_of_them_has_changed(
        self, open_history: OpenHistory
    ) -> None:
        history = await open_history()
        cluster, none = Stream.of_cluster("alpha"), Stream.of_cluster("beta")
        await append(history, STREAM, job_seen())
        await append(history, cluster, stage_set())
        rests = Append(
            stream=STREAM, expected_version=1, events=(change_seen("a"),), unchanged=((none, 0), (cluster, 1))
        )
        await append(history, cluster, stage_set())
        await refusal(ConflictError, history.append(rests, NOON))
        assert await history.head() == 3
        stored = await history.append(replace(rests, unchanged=((none, 0), (cluster, 2))), NOON)
        assert [item.position for item in stored] == [4]
        assert (await history.load(none)).version == 0

    async def test_an_impossible_event_stores_nothing_of_its_append(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await append(history, STREAM, job_seen())
        batch = Append(stream=STREAM, expected_version=1, events=(*opening(), *whole_story()[7:]), unique=("once",))
        await refusal(ImpossibleEventError, history.append(batch, NOON))
        assert (await history.load(STREAM)).record == fold(STREAM.name, [job_seen()])
        assert await history.incidents() == ()
        await history.append(replace(batch, events=()), NOON)
        await refusal(NotUniqueError, history.append(replace(batch, events=()), NOON))

    async def test_an_append_without_events_takes_no_position(self, open_history: OpenHistory) -> None:
        history = await open_history()
        assert await history.append(Append(stream=STREAM, expected_version=0, events=()), NOON) == ()
        assert await history.head() == 0
        assert await history.jobs() == ()

    async def test_a_clock_that_steps_back_changes_no_order(self, open_history: OpenHistory) -> None:
        history = await open_history()
        stored: tuple[Recorded, ...] = ()
        for number, second in enumerate((0, 3600, 10, -7200, 11)):
            raw_id = str(number % 2)
            stored += await append(history, job_stream(raw_id), change_seen(str(number), raw_id), now=after(second))
        assert await history.follow(0) == stored
        assert [item.position for item in stored] == [1, 2, 3, 4, 5]
        assert [item.recorded_at for item in stored] == [after(s) for s in (0, 3600, 10, -7200, 11)]
        assert [record.job.raw_id for record in await history.jobs()] == ["0", "1"]

    async def test_times_keep_their_microseconds(self, open_history: OpenHistory) -> None:
        history = await open_history()
        times = [
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2026, 10, 25, 1, 30, 0, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ]
        for at in times:
            await append(history, STREAM, change_seen("x"), now=at)
        assert [item.recorded_at for item in await (await open_history()).read(STREAM)] == times

    async def test_any_text_comes_back(self, open_history: OpenHistory) -> None:
        history = await open_history()
        for number, text in enumerate(AWKWARD_TEXTS):
            raw_id = str(number)
            await append(history, job_stream(raw_id), job_seen(raw_id, name=text), change_seen(text, raw_id))
        history = await open_history()
        for number, text in enumerate(AWKWARD_TEXTS):
            record = (await history.load(job_stream(str(number)))).record
            assert isinstance(record, JobRecord)
            assert record.name == text
            assert record.outside == (f"note: {text}",)
            assert str(number) in [found.job.raw_id for found in await history.find_jobs(text)]

    async def test_names_that_a_database_may_confuse_are_apart(self, open_history: OpenHistory) -> None:
        history = await open_history()
        names = ["node", "NODE", "node ", "n\u00f6de", "no\u0308de", "node\x00", "~node", "no%de", "n" * 300, "n" * 301]
        for name in names:
            await append(history, Stream.of_node("alpha", name), *node_events(name))
        history = await open_history()
        for name in names:
            snapshot = await history.load(Stream.of_node("alpha", name))
            assert snapshot.version == 2
            assert isinstance(snapshot.record, NodeRecord)
            assert snapshot.record.node == name
        assert sorted(record.node for record in await history.nodes()) == sorted(names)

    async def test_a_job_key_may_have_255_characters(self, open_history: OpenHistory) -> None:
        history = await open_history()
        raw_id = "x" * (255 - len(str(job_key("x"))) + 1)
        stream = job_stream(raw_id)
        assert len(stream.subject) == 255
        await append(history, stream, job_seen(raw_id), *opening(raw_id=raw_id))
        history = await open_history()
        assert [record.job.raw_id for record in await history.find_jobs(raw_id)] == [raw_id]
        assert [record.job.raw_id for record in await history.find_jobs(stream.subject)] == [raw_id]
        assert [item.stream for item in await history.follow(0)] == [stream] * 3

    async def test_large_events_come_back_whole(self, open_history: OpenHistory) -> None:
        history = await open_history()
        mebibyte = "é\n" * 262_144
        full = FindingReported(finding=finding(hits=200, excerpt="x" * 2000))
        await append(history, STREAM, job_seen(), change_seen(mebibyte), full)
        history = await open_history()
        assert [item.event for item in await history.read(STREAM)] == [job_seen(), change_seen(mebibyte), full]
