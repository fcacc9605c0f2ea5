"""A job's stage goes with the partition in which the scheduler shows it now."""

from __future__ import annotations

from dataclasses import replace

from relance.domain.records import ClusterRecord
from relance.domain.stages import Stage, StageSetting
from relance.domain.views import Wish
from relance.recovery.ordering import job_stage
from relance.recovery.sites import ClusterRules
from tests.unit.recovery.situations import AT, RUNNING, at, seen

RULES = ClusterRules(cluster="alpha", opted_in=None)
ACT = StageSetting(stage=Stage.ACT, set_by="ada", set_at=AT)
CLUSTER = ClusterRecord(
    cluster="alpha", setting=ACT, partitions={"debug": replace(ACT, stage=Stage.OBSERVE, partition="debug")}
)


def test_a_job_that_was_moved_to_another_partition_has_that_one_s_stage() -> None:
    record = seen(RUNNING)
    assert job_stage(record, CLUSTER, RULES, at(2), RUNNING).stage is Stage.ACT
    moved = replace(RUNNING, partition="debug")
    assert job_stage(record, CLUSTER, RULES, at(2), moved).stage is Stage.OBSERVE


def test_a_job_that_is_not_shown_keeps_the_partition_it_was_seen_in() -> None:
    record = seen(replace(RUNNING, partition="debug"))
    assert job_stage(record, CLUSTER, RULES, at(2), None).stage is Stage.OBSERVE


def test_a_job_of_a_kind_that_is_only_watched_stays_at_observe_and_says_why() -> None:
    wished = replace(RUNNING, wish=Wish(mode=Stage.ACT), only_watched="it is interactive; submit it with sbatch")
    stage = job_stage(seen(wished), CLUSTER, RULES, at(2), wished)
    assert stage.stage is Stage.OBSERVE
    assert stage.why == ("jobs of this kind are only watched: it is interactive; submit it with sbatch",)
    lifted = replace(wished, only_watched="")
    assert job_stage(seen(wished), CLUSTER, RULES, at(2), lifted).stage is Stage.ACT


def test_only_its_own_wish_opts_a_task_of_an_array_in() -> None:
    task = replace(RUNNING, array="17")
    stage = job_stage(seen(task), CLUSTER, RULES, at(2), task)
    assert (stage.stage, "array" in stage.why[0]) == (Stage.OBSERVE, True)
    wished = replace(task, wish=Wish(mode=Stage.ACT))
    assert job_stage(seen(wished), CLUSTER, RULES, at(2), wished).stage is Stage.ACT
