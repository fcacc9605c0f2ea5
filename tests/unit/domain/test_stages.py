"""The effective stage is the least of everything that limits it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from relance.domain.keys import JobKey
from relance.domain.stages import (
    ClusterStages,
    EndRunning,
    HealthCap,
    Stage,
    StageSetting,
    Standing,
    effective_stage,
)

AT = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)
JOB = JobKey(cluster="alpha", raw_id="17", submitted_at=AT)
ACT = StageSetting(stage=Stage.ACT, end_running=frozenset({EndRunning.HANG}), set_by="ada", set_at=AT)
WILLING = Standing(job=JOB, partition="gpu", wish=Stage.ACT)


def test_a_cluster_that_nobody_set_is_in_observe() -> None:
    assert effective_stage(ClusterStages(), WILLING).stage is Stage.OBSERVE


def test_a_job_that_asks_for_act_on_a_cluster_in_act_is_in_act_with_its_consents() -> None:
    result = effective_stage(ClusterStages(cluster=ACT), WILLING)
    assert result.stage is Stage.ACT
    assert result.end_running == frozenset({EndRunning.HANG})


def test_a_job_without_a_wish_needs_the_opt_in_rule() -> None:
    stages = ClusterStages(cluster=ACT)
    assert effective_stage(stages, replace(WILLING, wish=None)).stage is Stage.OBSERVE
    assert effective_stage(stages, replace(WILLING, wish=None, opted_in=True)).stage is Stage.ACT


def test_the_partition_limits_and_its_consents_replace_the_clusters() -> None:
    stages = ClusterStages(cluster=ACT, partitions={"gpu": replace(ACT, end_running=frozenset())})
    assert effective_stage(stages, WILLING).end_running == frozenset()
    stages = ClusterStages(cluster=ACT, partitions={"gpu": replace(ACT, stage=Stage.APPROVE)})
    assert effective_stage(stages, WILLING).stage is Stage.APPROVE


def test_a_health_cap_lowers_the_stage_and_says_why_without_changing_what_was_set() -> None:
    cap = HealthCap(name="watcher", stage=Stage.OBSERVE, reason="silent for 30 s", since=AT)
    result = effective_stage(ClusterStages(cluster=ACT, caps=(cap,)), WILLING)
    assert result.stage is Stage.OBSERVE
    assert result.why == ("watcher: silent for 30 s",)
    elsewhere = replace(cap, partition="cpu")
    assert effective_stage(ClusterStages(cluster=ACT, caps=(elsewhere,)), WILLING).stage is Stage.ACT


def test_the_owner_can_always_switch_a_job_off() -> None:
    stages = ClusterStages(cluster=ACT, jobs={str(JOB): Stage.OFF})
    assert effective_stage(stages, WILLING).stage is Stage.OFF


def test_consent_to_end_running_counts_only_in_act() -> None:
    stages = ClusterStages(cluster=replace(ACT, stage=Stage.APPROVE))
    assert effective_stage(stages, WILLING).end_running == frozenset()


def test_a_job_that_may_run_in_several_partitions_is_limited_by_each_of_them() -> None:
    anywhere = replace(WILLING, partition="gpu,debug")
    watched = replace(ACT, stage=Stage.OBSERVE, partition="debug")
    result = effective_stage(ClusterStages(cluster=ACT, partitions={"debug": watched}), anywhere)
    assert result.stage is Stage.OBSERVE
    assert result.why == ("partition debug is set to observe",)
    cap = HealthCap(name="watcher", stage=Stage.OBSERVE, reason="silent for 30 s", since=AT, partition="gpu")
    assert effective_stage(ClusterStages(cluster=ACT, caps=(cap,)), anywhere).stage is Stage.OBSERVE


def test_consent_for_a_job_of_several_partitions_is_what_all_of_them_consent_to() -> None:
    both = frozenset({EndRunning.HANG, EndRunning.DEAD_RANK})
    stages = ClusterStages(cluster=ACT, partitions={"debug": replace(ACT, end_running=both)})
    anywhere = replace(WILLING, partition="gpu,debug")
    assert effective_stage(stages, anywhere).end_running == frozenset({EndRunning.HANG})
