"""The contract of the rows beside streams: checkpoints, progress, kept logs, reports."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from relance.domain.observations import Attachment
from relance.ports.histories import Append, ConflictError, KeptLog
from relance.testing.appending import OpenHistory, append, refusal, store
from relance.testing.history_values import (
    NOON,
    after,
    attempt_key,
    change_seen,
    job_key,
    job_seen,
    job_stream,
    progress_at,
    report_of,
)

STREAM = job_stream()
FIRST, SECOND = attempt_key(), attempt_key(restart_count=1)
PLAIN = Append(stream=STREAM, expected_version=0, events=(), keep_wake=True)


class RowContract:
    """What is kept beside the events, in the same transaction."""

    async def test_each_attempt_has_its_last_checkpoint(self, open_history: OpenHistory) -> None:
        history = await open_history()
        assert await history.checkpoint(FIRST) is None
        large = '{"files": "' + "x" * 500_000 + 'ü"}'
        await history.append(replace(PLAIN, checkpoints=((FIRST, "one"), (SECOND, large))), NOON)
        await history.append(replace(PLAIN, checkpoints=((FIRST, "two"),)), after(-5))
        history = await open_history()
        assert await history.checkpoint(FIRST) == "two"
        assert await history.checkpoint(SECOND) == large

    async def test_a_refused_append_leaves_everything_as_it_was(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await history.append(
            replace(PLAIN, checkpoints=((FIRST, "one"),), progress=((FIRST, progress_at(1, 1)),)), NOON
        )
        await append(history, STREAM, job_seen())
        late = replace(
            PLAIN,
            events=(change_seen("late"),),
            checkpoints=((FIRST, "late"),),
            progress=((FIRST, progress_at(2, 2)),),
            attachments=((FIRST, Attachment(file="/l", start_offset=0, data=b"late")),),
        )
        await refusal(ConflictError, history.append(late, NOON))
        assert await history.checkpoint(FIRST) == "one"
        assert await history.progress(FIRST) == progress_at(1, 1)
        assert await history.kept_logs(FIRST.job) == ()

    async def test_progress_is_kept_newest_and_once_a_minute(self, open_history: OpenHistory) -> None:
        history = await open_history()
        assert await history.progress(FIRST) is None
        assert await history.progress_rows(FIRST) == ()
        for second, step in ((0, 1), (20, 2), (59, 3), (60, 4), (185, 5)):
            await history.append(replace(PLAIN, progress=((FIRST, progress_at(second, step)),)), after(second))
        await history.append(replace(PLAIN, progress=((SECOND, progress_at(300, 9)),)), after(300))
        history = await open_history()
        assert await history.progress(FIRST) == progress_at(185, 5)
        assert [row.step for row in await history.progress_rows(FIRST)] == [3, 4, 5]
        assert [row.step for row in await history.progress_rows(SECOND)] == [9]

    async def test_progress_of_a_clock_that_steps_back_is_still_the_newest(self, open_history: OpenHistory) -> None:
        history = await open_history()
        for second, step in ((3600, 1), (0, 2)):
            await history.append(replace(PLAIN, progress=((FIRST, progress_at(second, step)),)), after(second))
        assert await history.progress(FIRST) == progress_at(0, 2)
        assert [row.step for row in await history.progress_rows(FIRST)] == [2, 1]

    async def test_kept_pieces_of_logs_are_found_by_job_and_their_bytes_by_digest(
        self, open_history: OpenHistory
    ) -> None:
        history = await open_history()
        data = bytes(range(256)) * 1024
        tail = Attachment(file="/logs/out\udc80 1.txt", start_offset=4096, data=data)
        empty = Attachment(file="/logs/err.txt", start_offset=0, data=b"")
        await history.append(replace(PLAIN, attachments=((FIRST, tail), (SECOND, empty))), NOON)
        await history.append(replace(PLAIN, attachments=((SECOND, tail),)), after(1))
        digest = hashlib.sha256(data).hexdigest()
        history = await open_history()
        kept = await history.kept_logs(job_key())
        assert kept[0] == KeptLog(
            attempt=FIRST, file=tail.file, start_offset=4096, size_bytes=len(data), digest=digest, kept_at=NOON
        )
        assert [(item.attempt, item.size_bytes) for item in kept] == [(FIRST, 262_144), (SECOND, 0), (SECOND, 262_144)]
        assert await history.kept_bytes(digest) == data
        assert await history.kept_bytes(kept[1].digest) == b""
        assert await history.kept_bytes("0" * 64) is None
        assert await history.kept_logs(job_key("18")) == ()

    async def test_the_same_piece_of_a_log_is_kept_once(self, open_history: OpenHistory) -> None:
        history = await open_history()
        tail = Attachment(file="/logs/out.txt", start_offset=0, data=b"the end\n")
        for _ in range(2):
            await store(history, replace(PLAIN, attachments=((FIRST, tail), (FIRST, tail))))
        assert len(await history.kept_logs(job_key())) == 1

    async def test_the_newest_report_of_each_cluster_is_kept(self, open_history: OpenHistory) -> None:
        history = await open_history()
        assert await history.report("alpha") is None
        await history.put_report(report_of(sequence=1), NOON)
        await history.put_report(report_of(sequence=3, jobs=300), after(2))
        await history.put_report(report_of(cluster="beta"), after(3))
        other = await open_history()
        for either in (history, other):
            assert await either.report("alpha") == report_of(sequence=3, jobs=300)
            assert await either.report("beta") == report_of(cluster="beta")
        await other.put_report(report_of(sequence=4), after(3))
        assert await history.report("alpha") == report_of(sequence=4)

    async def test_a_report_that_comes_late_is_ignored_within_its_session(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await history.put_report(report_of(sequence=5), after(5))
        await history.put_report(report_of(sequence=4), after(6))
        assert await history.report("alpha") == report_of(sequence=5)
        await history.put_report(report_of(session="s2", sequence=1), after(7))
        assert await history.report("alpha") == report_of(session="s2", sequence=1)
