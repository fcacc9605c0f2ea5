from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain.faults import Scope
from relance.domain.findings import Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import LogBlock
from relance.domain.views import Assignment
from relance.ports.sources import Reading
from relance.rules.pushdown import Prefilter
from relance.sources.exchanges import StoreAnswerError, StoreBusyError, StoreRefusedError
from relance.sources.stores.gathering import Gathering
from relance.sources.stores.samples import Samples
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import ns_of
from relance.sources.stores.wanted import Wanted
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_stores import MemoryStore

SETTINGS = StoreSourceSettings(name="loki", delay_s=10.0, requests_per_s=1e6, kernel_match={"unit": "kernel"})


class Stand:
    def __init__(self, settings: StoreSourceSettings = SETTINGS, wanted: Wanted | None = None) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(now_ns=lambda: ns_of(self.clock.now()))
        self.settings = settings
        self.wanted = wanted or Wanted()
        self.gathering = Gathering(self.store, settings, self.wanted, self.clock)
        self.began = self.clock.now()

    def job(self, raw_id: str = "17", restart_count: int = 0, **fields: object) -> Assignment:
        key = AttemptKey(
            job=JobKey(cluster="alpha", raw_id=raw_id, submitted_at=self.began), restart_count=restart_count
        )
        whole = Assignment(attempt=key, owner_uid=0, nodes=("n1", "n2"), log_paths=(), started_at=self.began)
        return replace(whole, **fields)  # type: ignore[arg-type]

    def follow(self, *jobs: Assignment, positions: Mapping[AttemptKey, Mapping[str, object]] | None = None) -> None:
        self.gathering.assign(jobs, positions or {})

    def put(self, text: str, *, job: str = "17", node: str = "n1", ago_s: float = 0.0, **labels: str) -> None:
        at = self.clock.now() - timedelta(seconds=ago_s)
        self.store.put(ns_of(at), {"job_id": job, "node": node, **labels}, text.encode())

    def put_kernel(self, text: str, node: str = "n1") -> None:
        self.store.put(ns_of(self.clock.now()), {"unit": "kernel", "node": node}, text.encode())

    def read(self, job: Assignment) -> Reading:
        return self.gathering.followed[job.attempt].read(self.clock.now())

    async def text(self, job: Assignment) -> str:
        await self.gathering.look()
        return text_of(self.read(job).blocks)


def text_of(blocks: Sequence[LogBlock]) -> str:
    return b"".join(block.data[block.overlap :] for block in blocks).decode()


async def test_a_block_tells_stream_node_rank_and_time() -> None:
    stand = Stand(replace(SETTINGS, rank_label="rank", node_value="{node}.example.org", match={"cluster": "alpha"}))
    job = stand.job()
    stand.follow(job)
    stand.put("one", node="n1.example.org", rank="3", cluster="alpha")
    written_at = stand.clock.now()
    stand.clock.advance(3600)
    await stand.gathering.look()
    reading = stand.read(job)
    (block,) = reading.blocks
    assert reading.is_shipped
    assert block.file == 'loki:{job_id="17",node="n1.example.org",rank="3"}'
    assert (block.node, block.rank, block.scope, block.offset) == ("n1", 3, Scope.APPLICATION, 0)
    assert block.read_at == written_at


async def test_a_store_of_another_cluster_is_not_ours() -> None:
    stand = Stand(replace(SETTINGS, match={"cluster": "alpha"}))
    job = stand.job()
    stand.follow(job)
    stand.put("theirs", cluster="beta")
    stand.put("ours", cluster="alpha")
    assert await stand.text(job) == "ours\n"


async def test_lines_far_apart_in_time_are_in_blocks_of_their_own() -> None:
    stand = Stand()
    job = stand.job()
    stand.follow(job)
    for _ in range(3):
        stand.put("step")
        stand.clock.advance(5)
    await stand.gathering.look()
    blocks = stand.read(job).blocks
    assert [block.read_at for block in blocks] == [stand.began + timedelta(seconds=5 * each) for each in range(3)]
    assert [block.offset for block in blocks] == [0, 5, 10]


async def test_kernel_lines_of_a_node_go_to_every_attempt_on_it_and_to_no_other() -> None:
    stand = Stand()
    one, two, other = stand.job("1", nodes=("n1",)), stand.job("2", nodes=("n1", "n2")), stand.job("3", nodes=("n3",))
    stand.follow(one, two, other)
    stand.put_kernel("NVRM: Xid")
    await stand.gathering.look()
    for job, wanted in ((one, ["n1"]), (two, ["n1"]), (other, [])):
        blocks = stand.read(job).blocks
        assert [(block.node, block.scope) for block in blocks] == [(node, Scope.KERNEL) for node in wanted]


async def test_a_kernel_line_is_not_taken_for_the_jobs_own() -> None:
    stand = Stand()
    job = stand.job()
    stand.follow(job)
    stand.put("of the kernel", unit="kernel")
    await stand.gathering.look()
    assert [block.scope for block in stand.read(job).blocks] == [Scope.KERNEL]


async def test_what_is_seen_of_output_and_of_kernel_logs_is_told_apart() -> None:
    stand = Stand()
    job = stand.job()
    stand.follow(job)
    stand.put_kernel("NVRM: Xid")
    await stand.gathering.look()
    told = {entry.scope: entry.sight for entry in stand.read(job).coverage}
    assert told == {Scope.APPLICATION: Sight.MISSING, Scope.KERNEL: Sight.SEEN}


async def test_attempts_of_a_job_share_no_line() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}))
    first = stand.job(ended_at=stand.began + timedelta(seconds=20))
    second = stand.job(restart_count=1, started_at=stand.began + timedelta(seconds=60))
    stand.follow(first, second)
    stand.put("of the first")
    stand.clock.advance(30)
    stand.put("its last words")
    stand.clock.advance(29)
    stand.put("of the second, by a clock that is behind")
    stand.clock.advance(1)
    stand.put("of the second")
    await stand.gathering.look()
    assert text_of(stand.read(first).blocks) == "of the first\nits last words\n"
    assert text_of(stand.read(second).blocks) == "of the second, by a clock that is behind\nof the second\n"


async def test_an_attempt_that_was_replaced_at_once_is_read_past_its_end() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}))
    first = stand.job()
    stand.follow(first)
    stand.clock.advance(60)
    await stand.gathering.look()
    ended_at = stand.clock.now()
    first = replace(first, ended_at=ended_at)
    stand.follow(first, stand.job(restart_count=1, started_at=ended_at))
    for _ in range(4):
        stand.clock.advance(5)
        await stand.gathering.look()
    seen = stand.read(first).seen
    assert seen is not None
    assert seen.at > ended_at


async def test_the_watermark_is_the_delay_behind_and_stands_while_the_store_is_away() -> None:
    stand = Stand()
    job = stand.job()
    stand.follow(job)
    assert stand.read(job).seen is None
    stand.clock.advance(60)
    await stand.gathering.look()
    seen = stand.read(job).seen
    assert seen is not None
    assert seen.at == stand.clock.now() - timedelta(seconds=10)
    stand.store.is_away = True
    stand.clock.advance(60)
    await stand.gathering.look()
    again = stand.read(job)
    assert again.seen is None or again.seen.at == seen.at
    assert {entry.sight for entry in again.coverage} == {Sight.LAGGING}
    (entry,) = stand.gathering.sight()
    assert (entry.source, entry.sight) == ("loki", Sight.MISSING)
    assert "away" in entry.note


async def test_an_outage_of_ten_minutes_loses_no_line_and_repeats_none() -> None:
    stand = Stand(replace(SETTINGS, page_entries=40))
    job = stand.job()
    stand.follow(job)
    got, wanted = "", ""
    for second in range(900):
        stand.store.is_away = 100 <= second < 700
        stand.put(f"step {second}")
        wanted += f"step {second}\n"
        got += await stand.text(job)
        stand.clock.advance(1)
    for _ in range(10):
        got += await stand.text(job)
        stand.clock.advance(5)
    assert got == wanted
    assert stand.gathering.sight()[0].sight is Sight.SEEN


async def test_a_store_that_is_away_is_asked_less_and_less_often() -> None:
    stand = Stand()
    stand.follow(stand.job())
    stand.store.is_away = True
    for _ in range(300):
        await stand.gathering.look()
        stand.clock.advance(1)
    assert len(stand.store.asked) <= 20


async def test_a_store_that_wants_to_be_left_alone_is() -> None:
    stand = Stand()
    stand.follow(stand.job())
    stand.store.failures.append(StoreBusyError("busy", 20.0))
    for _ in range(19):
        await stand.gathering.look()
        stand.clock.advance(1)
    assert len(stand.store.asked) == 1


async def test_a_thousand_jobs_take_a_handful_of_queries() -> None:
    stand = Stand()
    jobs = [stand.job(str(number), nodes=(f"node{number // 4:05}",)) for number in range(1000)]
    stand.follow(*jobs)
    for number in range(1000):
        stand.put("step", job=str(number), node=f"node{number // 4:05}")
    await stand.gathering.look()
    assert len(stand.store.asked) <= 5
    assert all(text_of(stand.read(job).blocks) == "step\n" for job in jobs)
    stand.store.asked.clear()
    stand.clock.advance(60)
    await stand.gathering.look()
    assert len(stand.store.asked) <= 5


async def test_what_is_refused_for_its_size_is_asked_for_in_parts() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}))
    stand.store.names_at_most = 3
    jobs = [stand.job(str(number)) for number in range(40)]
    stand.follow(*jobs)
    for number in range(40):
        stand.put("step", job=str(number))
    for _ in range(10):
        await stand.gathering.look()
    assert all(text_of(stand.read(job).blocks) == "step\n" for job in jobs)


async def test_a_job_on_more_nodes_than_a_query_takes_has_all_their_kernel_logs() -> None:
    stand = Stand(replace(SETTINGS, query_names=10))
    nodes = tuple(f"n{number}" for number in range(35))
    job = stand.job(nodes=nodes)
    stand.follow(job)
    for node in nodes:
        stand.put_kernel("Xid", node)
    await stand.gathering.look()
    assert {block.node for block in stand.read(job).blocks} == set(nodes)


async def test_a_refused_pattern_of_one_job_stops_no_other() -> None:
    own = Prefilter(lines="step")
    stand = Stand(replace(SETTINGS, kernel_match={}), Wanted(own=own))
    odd, plain = stand.job("1", progress_pattern="odd"), stand.job("2")
    stand.follow(odd, plain)
    stand.put("step of the odd one", job="1")
    stand.put("step", job="2")
    stand.store.failures.append(StoreRefusedError("HTTP 400: no such thing", "mend it"))
    await stand.gathering.look()
    read = {job.attempt.job.raw_id: stand.read(job) for job in (odd, plain)}
    texts = {raw_id: text_of(reading.blocks) for raw_id, reading in read.items()}
    assert sorted(texts.values()) in (["", "step\n"], ["", "step of the odd one\n"])
    refused = next(reading for reading in read.values() if not reading.blocks)
    assert any("no such thing" in entry.note for entry in refused.coverage)
    assert refused.seen is None
    stand.clock.advance(31)
    await stand.gathering.look()
    assert sum(len(stand.read(job).blocks) for job in (odd, plain)) == 1


async def test_a_store_that_refuses_everything_is_not_seen() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}))
    stand.follow(stand.job())
    await stand.gathering.look()
    stand.store.failures += [StoreRefusedError("HTTP 401: who are you", "see the token")] * 100
    for _ in range(60):
        stand.clock.advance(2)
        await stand.gathering.look()
    (entry,) = stand.gathering.sight()
    assert (entry.sight, entry.up_to) == (Sight.REFUSED, stand.began)
    assert "see the token" in entry.note
    assert len(stand.store.failures) > 90


async def test_one_job_that_writes_too_much_says_nothing_of_the_store() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}, page_entries=10, pages_at_once=1, apart_s=1.0))
    stand.follow(stand.job("1"), stand.job("2"))
    for _ in range(30):
        for number in range(100):
            stand.put(f"chatter {number}", job="1", ago_s=number / 100)
        await stand.gathering.look()
        stand.clock.advance(2)
    await stand.gathering.look()
    (entry,) = stand.gathering.sight()
    assert entry.up_to is not None
    assert stand.clock.now() - entry.up_to < timedelta(seconds=10)


async def test_where_a_jobs_own_pattern_is_refused_all_its_lines_travel() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}), Wanted(own=Prefilter(lines="step")))
    job = stand.job(progress_pattern="odd")
    stand.follow(job)
    stand.put("something odd")
    stand.put("something else")
    stand.store.failures.append(StoreRefusedError("HTTP 400: no such thing", "mend it"))
    await stand.gathering.look()
    stand.clock.advance(31)
    assert await stand.text(job) == "something odd\nsomething else\n"


async def test_an_answer_that_is_none_is_told_and_tried_again() -> None:
    stand = Stand()
    job = stand.job()
    stand.follow(job)
    stand.put("step")
    stand.store.failures += [StoreAnswerError("HTML, as from a proxy", "see the url")] * 60
    for _ in range(8):
        await stand.gathering.look()
        stand.clock.advance(1)
    (entry,) = stand.gathering.sight()
    assert entry.sight is Sight.MISSING
    assert "HTML" in entry.note
    stand.store.failures.clear()
    stand.clock.advance(60)
    assert "step" in await stand.text(job)


async def test_lines_of_the_future_come_and_hold_nothing_up() -> None:
    stand = Stand()
    job = stand.job()
    stand.follow(job)
    stand.put("from a clock that is ahead", ago_s=-300)
    stand.put("now")
    assert sorted((await stand.text(job)).splitlines()) == ["from a clock that is ahead", "now"]
    for _ in range(200):
        stand.clock.advance(5)
        stand.put("later")
        assert await stand.text(job) == "later\n"
    assert all(block.read_at <= stand.clock.now() for block in stand.read(job).blocks)


async def test_a_line_that_is_too_long_comes_in_pieces_that_overlap() -> None:
    stand = Stand()
    job = stand.job()
    stand.follow(job)
    long = "".join(f"{number:07} " for number in range(40_000))
    stand.put(long)
    await stand.gathering.look()
    blocks = stand.read(job).blocks
    assert text_of(blocks) == long + "\n"
    assert len(blocks) > 1
    assert all(block.overlap > 0 for block in blocks[1:])
    assert all(len(block.data) <= 70_000 for block in blocks)


async def test_a_job_without_lines_is_told_and_no_reason_to_stop() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}))
    job = stand.job()
    stand.follow(job)
    await stand.gathering.look()
    reading = stand.read(job)
    assert [entry.sight for entry in reading.coverage] == [Sight.MISSING]
    assert "label of jobs" in reading.coverage[0].note
    assert reading.seen is not None


async def test_that_nothing_came_through_a_filter_is_not_taken_for_logs_that_are_missing() -> None:
    wanted = Wanted(own=Prefilter(lines="step|Xid"), kernel=Prefilter(lines="Xid"), progress="step")
    stand = Stand(SETTINGS, wanted)
    job = stand.job()
    stand.follow(job)
    stand.put("tick tock")
    stand.put_kernel("usb 1-1: new device")
    await stand.gathering.look()
    assert {entry.scope: entry.sight for entry in stand.read(job).coverage} == {
        Scope.APPLICATION: Sight.UNKNOWN,
        Scope.KERNEL: Sight.UNKNOWN,
    }
    await sampled(stand, Samples(stand.gathering, stand.settings, wanted), 20)
    own = stand.read(job).coverage[0]
    assert (own.sight, own.note) == (Sight.SEEN, "")


async def test_a_job_of_which_no_sample_has_a_line_is_missing_though_lines_are_filtered() -> None:
    wanted = Wanted(own=Prefilter(lines="step|Xid"), progress="step")
    stand = Stand(replace(SETTINGS, kernel_match={}), wanted)
    job, other = stand.job(), stand.job("18")
    stand.follow(job, other)
    await sampled(stand, Samples(stand.gathering, stand.settings, wanted), 20)
    (own,) = stand.read(other).coverage
    assert own.sight is Sight.MISSING
    assert "label of jobs" in own.note


async def test_a_store_with_nothing_to_ask_is_greeted() -> None:
    stand = Stand()
    assert stand.gathering.sight()[0].sight is Sight.UNKNOWN
    await stand.gathering.look()
    assert stand.gathering.sight()[0].sight is Sight.SEEN
    stand.store.is_away = True
    stand.clock.advance(60)
    await stand.gathering.look()
    assert stand.gathering.sight()[0].sight is Sight.MISSING


async def test_an_attempt_that_is_not_read_is_left_out_and_loses_nothing() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}, pending_bytes=1000, page_entries=20))
    slow, quick = stand.job("1"), stand.job("2")
    stand.follow(slow, quick)
    got = ""
    for number in range(100):
        stand.put(f"slow {number:90}", job="1")
        stand.put(f"quick {number}", job="2")
        got += await stand.text(quick)
        stand.clock.advance(1)
    assert got.count("\n") == 100
    assert stand.gathering.followed[slow.attempt].own.waiting_bytes < 10_000
    late = ""
    for _ in range(60):
        late += await stand.text(slow)
    assert late.count("\n") == 100


def pushed(progress: str = "step") -> Wanted:
    return Wanted(own=Prefilter(lines="step|Xid"), progress=progress)


async def sampled(stand: Stand, samples: Samples, rounds: int) -> None:
    for _ in range(rounds):
        stand.clock.advance(5)
        stand.put("tick tock")
        stand.put("Xid of nobody")
        await stand.gathering.look()
        await samples.take(stand.clock.monotonic(), ns_of(stand.clock.now()))


async def test_of_a_job_without_known_progress_a_few_of_all_lines_are_read_now_and_then() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}), pushed())
    job = stand.job()
    stand.follow(job)
    samples = Samples(stand.gathering, stand.settings, stand.wanted)
    await sampled(stand, samples, 20)
    text = text_of(stand.read(job).blocks)
    assert text.count("Xid") == 20
    assert 5 <= text.count("tick tock") <= 14
    asked = len(stand.store.asked)
    assert asked <= 20 + 2


async def test_a_format_that_was_learned_travels_and_needs_no_samples() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}), pushed())
    job = stand.job()
    stand.follow(job)
    stand.gathering.learn(job.attempt, "tick")
    samples = Samples(stand.gathering, stand.settings, stand.wanted)
    await sampled(stand, samples, 20)
    assert text_of(stand.read(job).blocks).count("tick tock") == 20


async def test_of_a_job_whose_progress_is_known_no_samples_are_read() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}), pushed("Xid"))
    job = stand.job()
    stand.follow(job)
    await sampled(stand, Samples(stand.gathering, stand.settings, stand.wanted), 20)
    assert "tick" not in text_of(stand.read(job).blocks)


@pytest.mark.parametrize("streams", [3000])
async def test_positions_stay_small_however_much_there_is(streams: int) -> None:
    stand = Stand()
    job = stand.job()
    stand.follow(job)
    for number in range(streams):
        stand.put("step", node=f"a-long-name-of-a-node-{number:06}.example.org")
        stand.put_kernel(f"line {number}")
    longest = 0
    for _ in range(40):
        await stand.gathering.look()
        longest = max(longest, len(json.dumps(stand.read(job).positions)))
        stand.clock.advance(1)
    assert longest <= 64 * 1024


async def test_a_stream_that_was_forgotten_names_no_place_twice() -> None:
    stand = Stand(replace(SETTINGS, streams=2, kernel_match={}))
    job = stand.job()
    stand.follow(job)
    places: set[tuple[str, int]] = set()
    for number in range(30):
        stand.put("x" * number, node=f"n{number % 5}")
        await stand.gathering.look()
        for block in stand.read(job).blocks:
            assert (block.file, block.offset) not in places
            places.add((block.file, block.offset))
        stand.clock.advance(1)
    assert len(places) == 30


async def test_the_start_of_an_attempt_that_has_not_started_is_now() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}))
    stand.put("of the attempt before")
    stand.clock.advance(100)
    job = stand.job(restart_count=1, started_at=None)
    stand.follow(job)
    stand.clock.advance(1)
    stand.put("mine")
    assert await stand.text(job) == "mine\n"
