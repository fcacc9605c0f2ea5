"""The contract of limits: unique keys, permits over many jobs, leases, and timers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from relance.domain.advice import Lease, PermitWish
from relance.domain.events import Event
from relance.domain.recoveries import MostRecoveries
from relance.domain.streams import Stream
from relance.ports.histories import (
    Append,
    History,
    LeaseLostError,
    NoPermitError,
    NotUniqueError,
    TooManyRecoveriesError,
)
from relance.testing.appending import OpenHistory, append, refusal, store
from relance.testing.history_values import (
    NOON,
    action_started,
    advice_issued,
    after,
    change_seen,
    closing,
    job_seen,
    job_stream,
    opening,
    stage_set,
    verdict_reached,
)

STREAM = job_stream()
WISH = PermitWish(scope="cluster/alpha", burst=3, refill_s=10.0)
GRACE_S = 10.0


def seen(raw_id: str) -> Append:
    """The first append to a job's stream."""
    return Append(stream=job_stream(raw_id), expected_version=0, events=(job_seen(raw_id),))


def _until_claimed(raw_id: str) -> tuple[Event, ...]:
    """A job from its first sight to the advice on its incident."""
    incident_id = f"inc-{raw_id}"
    return (
        job_seen(raw_id),
        *opening(incident_id, raw_id),
        verdict_reached(incident_id),
        advice_issued(incident_id, raw_id),
    )


async def _claim(history: History, raw_id: str, most: MostRecoveries) -> Append:
    """The claim of that advice, which rests on the cluster's stream."""
    cluster = await history.load(Stream.of_cluster(most.cluster))
    stream = job_stream(raw_id)
    return Append(
        stream=stream,
        expected_version=(await history.load(stream)).version,
        events=(action_started(f"inc-{raw_id}", raw_id),),
        unchanged=((cluster.stream, cluster.version),),
        recoveries=most,
    )


class LimitContract:
    """What an append must fit under, and what wakes a stream."""

    async def test_a_unique_key_is_taken_once_for_ever(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await history.append(replace(seen("1"), unique=("restart/1", "restart/é ")), NOON)
        for key in ("restart/1", "restart/é "):
            await refusal(NotUniqueError, history.append(replace(seen("2"), unique=("new", key)), after(1)))
        await (await open_history()).append(replace(seen("2"), unique=("new", "RESTART/1", "restart/é")), NOON)
        assert await history.head() == 2

    async def test_of_appends_with_one_unique_key_exactly_one_wins(self, open_history: OpenHistory) -> None:
        histories = [await open_history() for _ in range(4)]
        batches = [replace(seen(str(number)), unique=("restart/17",)) for number in range(4)]
        answers = await asyncio.gather(
            *(history.append(batch, NOON) for history, batch in zip(histories, batches, strict=True)),
            return_exceptions=True,
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["NotUniqueError"] * 3 + ["tuple"]
        assert await histories[0].head() == 1

    async def test_permits_are_taken_until_the_bucket_is_empty(self, open_history: OpenHistory) -> None:
        history = await open_history()
        for number in range(3):
            assert await history.permit_free_at(WISH, NOON) is None
            await history.append(replace(seen(str(number)), permits=(WISH,)), NOON)
        assert await history.permit_free_at(WISH, after(4)) == after(10)
        late = replace(seen("late"), permits=(WISH,), unique=("restart/late",))
        error = await refusal(NoPermitError, history.append(late, after(4)))
        assert (error.scope, error.free_at) == (WISH.scope, after(10))
        assert (await history.load(late.stream)).version == 0
        await (await open_history()).append(late, after(10))
        assert await history.permit_free_at(WISH, after(10)) == after(20)
        assert await history.permit_free_at(replace(WISH, scope="cluster/beta"), NOON) is None

    async def test_a_refused_append_takes_no_permit(self, open_history: OpenHistory) -> None:
        history = await open_history()
        one, none = replace(WISH, scope="a", burst=1), replace(WISH, scope="b", burst=1)
        await history.append(replace(seen("1"), permits=(none,)), NOON)
        await refusal(NoPermitError, history.append(replace(seen("2"), permits=(one, none)), NOON))
        assert await history.permit_free_at(one, NOON) is None

    async def test_claims_at_the_same_time_get_no_more_than_the_burst(self, open_history: OpenHistory) -> None:
        histories = [await open_history() for _ in range(8)]
        array = replace(WISH, scope="array/alpha/17", burst=8)
        batches = [replace(seen(str(n)), permits=(WISH, array)[:: 1 if n % 2 else -1]) for n in range(8)]
        answers = await asyncio.gather(
            *(history.append(batch, NOON) for history, batch in zip(histories, batches, strict=True)),
            return_exceptions=True,
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["NoPermitError"] * 5 + ["tuple"] * 3

    async def test_a_permit_of_a_clock_that_was_ahead_does_not_close_the_bucket(
        self, open_history: OpenHistory
    ) -> None:
        history = await open_history()
        for number in range(3):
            await history.append(replace(seen(str(number)), permits=(WISH,)), after(3600))
        await history.append(replace(seen("now"), permits=(WISH,)), NOON)

    async def test_no_more_recoveries_are_under_way_than_there_may_be(self, open_history: OpenHistory) -> None:
        history = await open_history()
        most = MostRecoveries(cluster="alpha", most=2)
        for raw_id in ("1", "2", "3", "4"):
            await append(history, job_stream(raw_id), *_until_claimed(raw_id))
        for raw_id in ("1", "2"):
            await history.append(await _claim(history, raw_id, most), NOON)
        error = await refusal(TooManyRecoveriesError, history.append(await _claim(history, "3", most), NOON))
        assert "2 of at most 2" in str(error)
        await append(history, job_stream("1"), *closing("inc-1", "1"))
        assert await history.append(await _claim(history, "3", most), NOON), "one has ended since"
        elsewhere = replace(await _claim(history, "4", most), recoveries=replace(most, cluster="beta"))
        assert await history.append(elsewhere, NOON), "those of another cluster do not count"

    async def test_of_claims_at_the_same_time_no_more_are_granted_than_there_may_be(
        self, open_history: OpenHistory
    ) -> None:
        histories = [await open_history() for _ in range(4)]
        most = MostRecoveries(cluster="alpha", most=2)
        await append(histories[0], Stream.of_cluster("alpha"), stage_set())
        for raw_id in ("1", "2", "3", "4"):
            await append(histories[0], job_stream(raw_id), *_until_claimed(raw_id))
        batches = [await _claim(histories[0], raw_id, most) for raw_id in ("1", "2", "3", "4")]
        answers = await asyncio.gather(
            *(history.append(batch, NOON) for history, batch in zip(histories, batches, strict=True)),
            return_exceptions=True,
        )
        names = sorted(type(answer).__name__ for answer in answers)
        assert names == ["TooManyRecoveriesError"] * 2 + ["tuple"] * 2

    async def test_a_lease_belongs_to_one_holder_and_its_epoch_grows_with_each_change(
        self, open_history: OpenHistory
    ) -> None:
        history, other = await open_history(), await open_history()
        first = await history.take_lease("alpha", "one", 10.0, NOON)
        assert first == Lease(cluster="alpha", holder="one", epoch=1, duration_s=10.0, granted=True)
        refused = await other.take_lease("alpha", "two", 10.0, after(5))
        assert (refused.granted, refused.holder, refused.epoch) == (False, "one", 1)
        assert refused.duration_s == 5 + GRACE_S
        assert (await history.take_lease("alpha", "one", 10.0, after(8))).epoch == 1
        assert not (await other.take_lease("alpha", "two", 10.0, after(18 + GRACE_S - 0.001))).granted
        second = await other.take_lease("alpha", "two", 10.0, after(18 + GRACE_S))
        assert (second.granted, second.epoch) == (True, 2)
        assert not (await history.take_lease("alpha", "one", 10.0, after(30))).granted
        assert (await history.take_lease("beta", "one", 10.0, NOON)).epoch == 1

    async def test_a_holder_comes_back_to_its_own_lease_after_it_ran_out(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await history.take_lease("alpha", "one", 10.0, NOON)
        late = await history.take_lease("alpha", "one", 10.0, after(500))
        assert (late.granted, late.epoch) == (True, 1)

    async def test_of_those_who_ask_at_once_one_gets_the_lease(self, open_history: OpenHistory) -> None:
        histories = [await open_history() for _ in range(4)]
        leases = await asyncio.gather(
            *(history.take_lease("alpha", f"holder-{n}", 10.0, NOON) for n, history in enumerate(histories))
        )
        assert sorted(lease.granted for lease in leases) == [False, False, False, True]
        assert {lease.epoch for lease in leases} == {1}

    async def test_a_lease_of_a_clock_that_was_ahead_runs_out_all_the_same(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await history.take_lease("alpha", "one", 10.0, after(3600))
        refused = await history.take_lease("alpha", "two", 10.0, NOON)
        assert (refused.granted, refused.duration_s) == (False, 10 + GRACE_S)
        assert (await history.take_lease("alpha", "two", 10.0, after(10 + GRACE_S))).granted

    async def test_an_append_under_a_lease_needs_that_lease_in_force(self, open_history: OpenHistory) -> None:
        history = await open_history()
        lease = await history.take_lease("alpha", "one", 10.0, NOON)
        await history.append(replace(seen("1"), lease=lease), after(9))
        stale = [
            (replace(lease, holder="two"), after(1)),
            (replace(lease, epoch=2), after(1)),
            (replace(lease, cluster="beta"), after(1)),
            (lease, after(10)),
        ]
        for asked, now in stale:
            await refusal(LeaseLostError, history.append(replace(seen("2"), lease=asked), now))
        await history.take_lease("alpha", "two", 10.0, after(100))
        await refusal(LeaseLostError, history.append(replace(seen("2"), lease=lease), after(101)))
        assert await history.head() == 1

    async def test_timers_wake_streams_earliest_first(self, open_history: OpenHistory) -> None:
        history = await open_history()
        for raw_id, second in (("1", 30), ("2", 10), ("3", 20)):
            await history.append(replace(seen(raw_id), wake_at=after(second)), NOON)
        assert await history.next_due() == after(10)
        assert await history.due(after(9.999999)) == ()
        assert await history.due(after(20)) == (job_stream("2"), job_stream("3"))
        assert await history.due(after(99), limit=1) == (job_stream("2"),)
        assert (await (await open_history()).load(job_stream("3"))).wake_at == after(20)

    async def test_an_append_replaces_or_keeps_the_timer(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await history.append(replace(seen("17"), wake_at=after(30)), NOON)
        await append(history, STREAM, change_seen("keeps it"))
        assert await _timer(history) == after(30)
        await store(history, Append(stream=STREAM, expected_version=0, events=(), keep_wake=True))
        assert await _timer(history) == after(30)
        await store(history, Append(stream=STREAM, expected_version=0, events=(), wake_at=after(40)))
        assert await _timer(history) == after(40)
        await store(history, Append(stream=STREAM, expected_version=0, events=(change_seen("ends it"),)))
        assert await _timer(history) is None
        assert await history.next_due() is None

    async def test_a_stream_without_events_may_have_a_timer(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await history.append(Append(stream=STREAM, expected_version=0, events=(), wake_at=after(1)), NOON)
        assert await history.due(after(1)) == (STREAM,)
        assert (await history.load(STREAM)).version == 0
        assert await history.jobs() == ()
        await append(history, STREAM, job_seen())
        assert await history.due(after(1)) == (STREAM,)


async def _timer(history: History) -> object:
    return (await history.load(STREAM)).wake_at
