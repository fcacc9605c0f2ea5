from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from relance.bootstrap.proofs.facts import Filter
from relance.bootstrap.proofs.rows import Level, Row, SignalCheck
from relance.bootstrap.proofs.signals import Opened, Question, check_signals
from relance.config.settings import ClusterSettings
from relance.config.sources import LogStoreSettings, MetricStoreSettings
from relance.domain.views import ClusterReport, JobState
from relance.ports.clocks import SystemClock
from relance.rules import Pack, load_pack
from relance.rules.pack import read_texts
from relance.sources.exchanges import StoreAnswerError, StoreAwayError, StoreRefusedError
from relance.sources.files.settings import FileSettings
from relance.sources.files.sources import FileSource
from relance.testing.manual_clocks import ManualClock
from tests.unit.bootstrap.spoken_stores import (
    NODES,
    NOW,
    SpokenLogs,
    SpokenMetrics,
    SpokenScheduler,
    entry,
    job,
    report,
    steps,
)

GPU = "DCGM_FI_DEV_GPU_UTIL"


class JumpingClock(ManualClock):
    """A clock that moves on by itself when somebody sleeps."""

    async def sleep(self, duration_s: float) -> None:
        self.advance(duration_s)


@cache
def shipped() -> Pack:
    return load_pack(read_texts())


@dataclass
class Site:
    """A cluster with one log store, and a metric store where one is given."""

    logs: SpokenLogs = field(default_factory=lambda: SpokenLogs(steps("17")))
    settings: dict[str, Any] = field(default_factory=dict)
    metrics: SpokenMetrics | None = None
    metric_settings: dict[str, Any] = field(default_factory=dict)
    seen: ClusterReport = field(default_factory=lambda: report(job()))
    filter: Filter | None = None

    async def check(self, question: Question | None = None) -> SignalCheck:
        store = LogStoreSettings(kind="loki", url="http://127.0.0.1:3100", **self.settings)
        metric = MetricStoreSettings(url="http://127.0.0.1:9090", **self.metric_settings)
        there = self.metrics is not None
        cluster = ClusterSettings(name="alpha", logs=(store,), metrics=(metric,) if there else ())
        opened = Opened(
            scheduler=SpokenScheduler(self.seen),  # type: ignore[arg-type] # only looked at
            logs=((store, self.logs),),
            metrics=((metric, self.metrics),) if self.metrics is not None else (),
            own_filter=self.filter,
        )
        clock = JumpingClock(NOW)
        return await check_signals(cluster, shipped(), question or Question(watch_s=0.0), opened, clock)


def row(found: SignalCheck, source: str, name: str) -> Row:
    (one,) = [each for each in found.rows if (each.source, each.name) == (source, name)]
    return one


def bad(found: SignalCheck) -> list[tuple[str, str]]:
    return [(each.source, each.name) for each in found.rows if each.level is Level.BAD]


async def test_lines_that_arrive_with_their_labels_and_steps_are_fit() -> None:
    found = await Site().check()
    assert found.fit, bad(found)
    assert found.jobs == ("17",)
    assert row(found, "loki", "answers").read == "spoken 1.0"
    assert row(found, "loki", "lines of 17").read == "20 lines, the last 5.0 s ago"
    assert "20 steps to 20, as torchtitan" in row(found, "loki", "progress of 17").read
    assert row(found, "loki", "names of nodes").level is Level.OK


async def test_every_red_row_says_what_mends_it() -> None:
    worst = Site(
        SpokenLogs([entry(90.0, "no step", job_id="17", host="gpu001")]),
        settings={"match": {"cluster": "alpha"}, "rank_label": "rank", "kernel_match": {"unit": "kernel"}},
        metrics=SpokenMetrics(frozenset({"up"})),
    )
    found = await worst.check()
    reds = [each for each in found.rows if each.level is not Level.OK]
    assert len(reds) > 5
    assert all(each.remedy and each.means and each.read for each in reds)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StoreAwayError("loki.example cannot be asked: ConnectError", "see that it runs"), "ConnectError"),
        (StoreAnswerError("loki.example answered with HTML, as from a proxy", "see that the url"), "HTML"),
        (StoreAnswerError("loki.example answered with more than 67108864 bytes", "narrow"), "67108864 bytes"),
        (StoreRefusedError("loki.example answered HTTP 401: no org id", "see that tenant"), "no org id"),
        (RecursionError("deep"), "RecursionError"),
    ],
)
async def test_a_store_that_does_not_answer_as_one_is_one_red_row(error: Exception, words: str) -> None:
    found = await Site(SpokenLogs(fails=error)).check()
    assert bad(found) == [("loki", "answers")]
    told = row(found, "loki", "answers")
    assert words in told.means
    assert told.remedy
    lost = [group for group in found.rules if group.needs == "output of jobs"]
    assert [(group.can_hit, group.means) for group in lost] == [(False, "never hit: their source does not deliver")]


async def test_a_store_that_fails_on_lines_alone_is_told_by_job() -> None:
    refused = SpokenLogs(steps("17"), StoreRefusedError("limit 5000 exceeded", "raise it"), failing=("newest",))
    found = await Site(refused).check()
    assert bad(found) == [("loki", "lines of 17")]
    assert row(found, "loki", "lines of 17").remedy == "raise it"


async def test_jobs_under_another_label_are_found_and_the_setting_is_given() -> None:
    lines = [each._replace(labels={"slurm_job": "job-17", "node": "gpu001"}) for each in steps("17")]
    found = await Site(SpokenLogs(lines)).check()
    assert {name for _, name in bad(found)} == {"label job_id", "lines of 17"}
    remedy = 'set job_label: slurm_job and job_value: "job-{raw_id}"'
    assert row(found, "loki", "label job_id").remedy == remedy
    assert row(found, "loki", "lines of 17").remedy == remedy


async def test_a_number_within_a_longer_one_is_no_job() -> None:
    lines = [each._replace(labels={"pid": "91712", "node": "gpu001"}) for each in steps("17")]
    assert "set job_label to one of" in row(await Site(SpokenLogs(lines)).check(), "loki", "label job_id").remedy


async def test_a_label_called_after_jobs_goes_before_others_with_such_numbers() -> None:
    labels = {"a_rank": "17", "slurm_jobid": "17", "node": "gpu001"}
    lines = [each._replace(labels=labels) for each in steps("17")]
    remedy = row(await Site(SpokenLogs(lines)).check(), "loki", "label job_id").remedy
    assert remedy.startswith("set job_label: slurm_jobid ")


async def test_nodes_under_another_label_and_with_long_names_are_found_and_the_setting_is_given() -> None:
    lines = [each._replace(labels={"job_id": "17", "host": "gpu001.example.org"}) for each in steps("17")]
    found = await Site(SpokenLogs(lines)).check()
    remedy = 'set node_label: host and node_value: "{node}.example.org"'
    assert row(found, "loki", "label node").remedy == remedy


async def test_names_of_nodes_are_those_on_the_lines_of_this_cluster() -> None:
    long = [each._replace(labels={"job_id": "17", "node": "gpu001.example.org"}) for each in steps("17")]
    others = entry(-9.0, "x", job_id="99", node="gpu001")
    told = row(await Site(SpokenLogs([*long, others])).check(), "loki", "names of nodes")
    assert (told.level, told.remedy) == (Level.BAD, 'set node_value: "{node}.example.org" for this source')


async def test_a_job_without_lines_is_red_once_it_should_have_some() -> None:
    other = SpokenLogs([entry(-30.0, "x", job_id="18", node="gpu001")])
    assert bad(await Site(other).check()) == [("loki", "lines of 17")]
    young = report(job(started_at=NOW))
    assert bad(await Site(other, seen=young).check()) == []


async def test_lines_that_stopped_coming_are_told() -> None:
    old = [each._replace(at_ns=each.at_ns - 1200 * 10**9) for each in steps("17")]
    told = row(await Site(SpokenLogs(old)).check(), "loki", "lines of 17")
    assert told.level is Level.WARN
    assert "20 min" in told.read


async def test_times_from_the_future_are_red_with_how_far_they_are_off() -> None:
    lines = [*steps("17"), entry(600.0, "later", job_id="17", node="gpu001")]
    found = await Site(SpokenLogs(lines)).check()
    assert bad(found) == [("loki", "times of 17")]
    assert row(found, "loki", "times of 17").read == "1 line from the future, by up to 10 min"
    assert row(found, "loki", "lines of 17").read.endswith("the last 5.0 s ago")


async def test_lines_without_a_node_are_told() -> None:
    lines = [*steps("17"), entry(-3.0, "x", job_id="17")]
    told = row(await Site(SpokenLogs(lines)).check(), "loki", "nodes of 17")
    assert (told.level, told.read) == (Level.WARN, "1 of 21 lines")


async def test_a_job_whose_steps_are_not_recognised_is_red_and_its_own_pattern_mends_it() -> None:
    lines = [entry(-20.0 + number, f"tick no. {number * 7} done", job_id="17", node="gpu001") for number in range(9)]
    red = row(await Site(SpokenLogs(lines)).check(), "loki", "progress of 17")
    assert (red.level, red.read) == (Level.BAD, "no steps")
    assert "progress_patterns" in red.remedy
    own = replace(job().wish, progress=r"tick no. (?P<step>\d+) done")
    mended = await Site(SpokenLogs(lines), seen=report(job(wish=own))).check()
    assert row(mended, "loki", "progress of 17").read.startswith("9 steps to 56, as own")


async def test_steps_of_a_format_that_was_learned_are_told_with_what_they_look_like() -> None:
    lines = [entry(-80.0 + 2 * number, f"step {number} took 2.0", job_id="17", node="gpu001") for number in range(40)]
    told = row(await Site(SpokenLogs(lines)).check(), "loki", "progress of 17")
    assert told.level is Level.WARN, told
    assert "step N took" in told.means


class _PickyLogs(SpokenLogs):
    """A store that refuses long patterns."""

    async def page(self, *asked: Any) -> Any:  # noqa: ANN401 - as the store's own
        if len(asked[0].lines) > 100:
            raise StoreRefusedError("query too long", "raise max_query_length")
        return await super().page(*asked)


@pytest.mark.parametrize(
    ("lines", "level", "words"),
    [
        ("loss|Xid", Level.OK, "0.0 KiB, answered in 0.00 s"),
        ("x" * 200, Level.BAD, "query too long"),
        ("", Level.WARN, "because of site-rule"),
    ],
)
async def test_the_filter_of_the_rules_is_tried_on_the_store(lines: str, level: Level, words: str) -> None:
    unfit = () if lines else ("site-rule",)
    site = Site(_PickyLogs(steps("17")), filter=Filter(kind="lines of jobs", lines=lines, unfit=unfit))
    told = row(await site.check(), "loki", "filter of lines of jobs")
    assert told.level is level
    assert words in f"{told.read} {told.means}"
    assert bool(told.remedy) == (level is not Level.OK)


async def test_kernel_lines_are_asked_for_where_the_settings_name_them() -> None:
    kernel = entry(-60.0, "NVRM: Xid", unit="kernel", node="gpu001")
    settings = {"kernel_match": {"unit": "kernel"}}
    found = await Site(SpokenLogs([*steps("17"), kernel]), settings=settings).check()
    assert row(found, "loki", "kernel lines").read == "1 line of 1 node, the last 60 s ago"
    assert any(group.can_hit and group.needs == "kernel logs" for group in found.rules)
    nameless = [*steps("17"), kernel._replace(labels={"unit": "kernel"})]
    assert bad(await Site(SpokenLogs(nameless), settings=settings).check()) == [("loki", "kernel lines")]


async def test_what_another_source_gives_is_no_reason_to_be_unfit() -> None:
    own = LogStoreSettings(kind="loki", url="http://127.0.0.1:3100")
    syslog = LogStoreSettings(
        kind="victorialogs", url="http://127.0.0.1:9428", name="syslog", kernel_match={"unit": "kernel"}
    )
    kernel = SpokenLogs([entry(-60.0, "NVRM: Xid", unit="kernel", node="gpu001")])
    noise = SpokenLogs([entry(-3.0, "x", job_id="17", node="gpu001")])
    cluster = ClusterSettings(name="alpha", logs=(own, syslog))

    async def reds(*logs: tuple[LogStoreSettings, SpokenLogs]) -> list[tuple[str, str]]:
        seen: Any = SpokenScheduler(report(job()))
        opened = Opened(scheduler=seen, logs=logs)
        return bad(await check_signals(cluster, shipped(), Question(watch_s=0.0), opened, JumpingClock(NOW)))

    assert await reds((own, SpokenLogs(steps("17"))), (syslog, kernel)) == []
    assert ("syslog", "lines of 17") in await reds((syslog, kernel))
    assert await reds((own, noise)) == [("loki", "progress of 17")]
    second = own.model_copy(update={"name": "second"})
    assert await reds((own, noise), (second, SpokenLogs(steps("17")))) == []


async def test_rules_that_can_never_hit_are_counted_by_what_they_lack() -> None:
    found = await Site().check()
    by_need = {group.needs: group for group in found.rules}
    assert by_need["output of jobs"].can_hit
    assert not by_need["kernel logs"].can_hit
    assert "kernel_match" in by_need["kernel logs"].remedy
    assert not by_need["metrics"].can_hit
    every = len(shipped().rules) + len(shipped().derived) + len(shipped().metrics)
    assert sum(len(group.rules) for group in found.rules) == every


async def test_rules_over_lines_whose_labels_are_missing_never_hit() -> None:
    site = Site(SpokenLogs(steps("17")), settings={"kernel_match": {"unit": "kernel"}})
    (kernel,) = [group for group in (await site.check()).rules if group.needs == "kernel logs"]
    assert (kernel.can_hit, kernel.means) == (False, "never hit: their source does not deliver")


async def test_a_job_that_the_scheduler_does_not_know_is_looked_for_by_its_id() -> None:
    found = await Site(SpokenLogs(steps("9"))).check(Question(job="9", watch_s=0.0))
    assert row(found, "scheduler", "jobs").level is Level.WARN
    assert row(found, "loki", "lines of 9").level is Level.OK


async def test_without_a_running_job_it_is_said_that_lines_cannot_be_told() -> None:
    found = await Site(seen=report(job(state=JobState.PENDING, started_at=None))).check()
    assert row(found, "scheduler", "jobs").level is Level.WARN
    assert "relance check marker" in row(found, "scheduler", "jobs").remedy


async def test_a_task_of_an_array_is_known_by_its_shown_id() -> None:
    found = await Site(seen=report(job(array="5", array_task=4))).check(Question(job="5_4", watch_s=0.0))
    assert found.jobs == ("17",)


class _LateLogs(SpokenLogs):
    """A store into which one more line comes with each look, stamped some seconds ago."""

    late_s = 0.0
    looks = 0

    async def newest(self, *asked: Any) -> Any:  # noqa: ANN401 - as the store's own
        self.looks += 1
        at_ns = asked[2] - int((3600.0 + self.late_s) * 1e9)
        if self.looks > 1:
            of_job = {"job_id": "17", "node": "gpu001"}
            self.entries.append(entry(0.0, f"new {self.looks}", **of_job)._replace(at_ns=at_ns))
        return await super().newest(*asked)


@pytest.mark.parametrize(("late_s", "level"), [(4.0, Level.OK), (30.0, Level.BAD)])
async def test_lines_that_come_later_than_the_settings_allow_are_red(late_s: float, level: Level) -> None:
    store = _LateLogs(steps("17"))
    store.late_s = late_s
    told = row(await Site(store).check(Question(watch_s=3.0)), "loki", "lateness")
    assert told.level is level, told
    assert told.read.startswith(f"{late_s:.1f} s in the middle of ")
    assert (f"delay_s: {2 * late_s:.0f}" in told.remedy) == (level is Level.BAD)


async def test_of_a_job_that_writes_much_less_of_the_past_is_held_beside_what_is_new() -> None:
    many = [entry(-100.0 + number / 30.0, f"line {number}", job_id="17", node="gpu001") for number in range(2500)]
    store = _LateLogs([*many, *steps("17")])
    store.late_s = 2.0
    told = row(await Site(store).check(Question(watch_s=3.0)), "loki", "lateness")
    assert told.read.startswith("2.0 s in the middle of "), told


async def test_where_there_are_too_many_lines_it_is_said_that_lateness_cannot_be_told() -> None:
    many = [entry(-4.0 + number / 1000.0, f"line {number}", job_id="17", node="gpu001") for number in range(3000)]
    told = row(await Site(SpokenLogs(many)).check(Question(watch_s=3.0)), "loki", "lateness")
    assert told.level is Level.WARN
    assert "too many lines" in told.means


def samples(**answers: Any) -> Mapping[str, Any]:  # noqa: ANN401 - samples
    """The answers about one series: how many there are, how new, whose, NaN, from the future."""
    one, plain = f"{GPU}{{}}", {"count": 16, "newest_s": NOW.timestamp() - 10, "hosts": NODES, "nan": 0, "later": 0}
    told = {**plain, **answers}
    by = "Hostname, node, nodename, instance"
    return {
        f"count({one})": [({}, told["count"])],
        f"max(timestamp({one}))": [({}, told["newest_s"])],
        f"count({one} != {one})": [({}, told["nan"])] if told["nan"] else [],
        f"later count({one})": [({}, told["later"])] if told["later"] else [],
        f"count by ({by}) ({one})": [({"Hostname": host, "instance": f"{host}:9400"}, 8.0) for host in told["hosts"]],
    }


async def test_metrics_of_all_nodes_are_fit() -> None:
    found = await Site(metrics=SpokenMetrics(frozenset({GPU, "up"}), samples())).check()
    assert found.fit, bad(found)
    assert row(found, "prometheus", "names of nodes").level is Level.OK
    assert any(group.can_hit and group.needs == "metrics" for group in found.rules)
    lacking = [group for group in found.rules if not group.can_hit and group.needs.startswith("metrics of")]
    assert {"metrics of node_exporter", "metrics of DCGM's exporter"} <= {group.needs for group in lacking}


@pytest.mark.parametrize(
    ("answers", "name", "level", "words"),
    [
        ({"nan": 16}, "no numbers", Level.BAD, "16 of 16"),
        ({"nan": 1}, "no numbers", Level.WARN, "1 of 16"),
        ({"later": 2}, "times of samples", Level.BAD, "2 series"),
        ({"newest_s": NOW.timestamp() - 900}, "samples", Level.BAD, "15 min old"),
        ({"hosts": ("gpu001",)}, "names of nodes", Level.WARN, "1 of 1"),
        ({"hosts": ("gpu001.example.org", "gpu002.example.org")}, "names of nodes", Level.BAD, "0 of 2"),
        ({"hosts": ()}, "names of nodes", Level.WARN, "none"),
    ],
)
async def test_what_is_wrong_with_samples_is_told(
    answers: dict[str, Any], name: str, level: Level, words: str
) -> None:  # fmt: skip
    found = await Site(metrics=SpokenMetrics(frozenset({GPU}), samples(**answers))).check()
    told = row(found, "prometheus", name)
    assert told.level is level
    assert words in told.read
    assert told.remedy


async def test_long_names_in_metrics_are_mended_by_a_template() -> None:
    hosts = {"hosts": tuple(f"{node}.example.org" for node in NODES)}
    site = Site(metrics=SpokenMetrics(frozenset({GPU}), samples(**hosts)))
    assert 'node_value: "{node}.example.org"' in row(await site.check(), "prometheus", "names of nodes").remedy
    site.metric_settings = {"node_value": "{node}.example.org"}
    assert row(await site.check(), "prometheus", "names of nodes").level is Level.OK


async def test_a_metric_store_that_is_away_is_one_red_row_and_its_rules_wait_for_it() -> None:
    away = SpokenMetrics(frozenset(), fails=StoreAwayError("cannot be asked", "see that it runs"))
    found = await Site(metrics=away).check()
    assert bad(found) == [("prometheus", "answers")]
    (group,) = [group for group in found.rules if group.needs == "metrics"]
    assert group.means == "never hit: the metric store does not answer"


async def test_series_of_progress_are_counted_by_job() -> None:
    settings = {"progress": {"step": "train_step", "loss": "train_loss"}}
    answers = {**samples(), 'count(train_step{job_id="17"})': [({}, 1.0)]}
    found = await Site(metrics=SpokenMetrics(frozenset({GPU}), answers), metric_settings=settings).check()
    told = row(found, "prometheus", "progress of 17")
    assert (told.level, told.read) == (Level.WARN, "train_step: 1, train_loss: 0")


async def test_files_are_opened_as_the_watcher_opens_them(tmp_path: Path) -> None:
    log = tmp_path / "17.out"
    log.write_bytes(b"\n".join(each.line for each in steps("17")) + b"\n")
    clock = SystemClock()
    now = clock.now()
    gone = str(tmp_path / "gone.out")
    view = job(owner_uid=os.geteuid(), log_paths=(str(log), gone), nodes=(), started_at=now, state=JobState.RUNNING)
    source = FileSource(FileSettings(roots=(str(tmp_path),)), clock)
    opened = Opened(scheduler=SpokenScheduler(report(view)), files=source)  # type: ignore[arg-type] # only looked at
    cluster = ClusterSettings(name="alpha", log_roots=(tmp_path,))
    try:
        found = await check_signals(cluster, shipped(), Question(watch_s=0.0), opened, clock)
        elsewhere = replace(view, owner_uid=view.owner_uid + 1, started_at=NOW, log_paths=(str(log),))
        opened = replace(opened, scheduler=SpokenScheduler(report(elsewhere)))  # type: ignore[arg-type] # the same
        refused = await check_signals(cluster, shipped(), Question(watch_s=0.0), opened, clock)
    finally:
        await source.close()
    rows = [each for each in found.rows if each.name == "logs of 17"]
    assert [(each.level, each.read) for each in rows] == [(Level.OK, str(log)), (Level.WARN, gone)]
    assert "20 steps to 20" in row(found, "files", "progress of 17").read
    assert bad(refused) == [("files", "logs of 17")]
