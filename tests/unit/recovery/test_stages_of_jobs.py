"""A job's stage goes with the partition in which the scheduler shows it now."""

from __future__ import annotations

from dataclasses import replace

from relance.domain.records import ClusterRecord
from relance.domain.stages import Stage, StageSetting
from relance.recovery.ordering import as_shown, job_stage
from relance.recovery.sites import ClusterRules
from tests.unit.recovery.situations import AT, RUNNING, at, seen

RULES = ClusterRules(cluster="alpha", opted_in=None)
ACT = StageSetting(stage=Stage.ACT, set_by="ada", set_at=AT)
CLUSTER = ClusterRecord(
    cluster="alpha", setting=ACT, partitions={"debug": replace(ACT, stage=Stage.OBSERVE, partition="debug")}
)


def test_a_job_that_was_moved_to_another_partition_has_that_one_s_stage() -> None:
    record = seen(RUNNING)
    assert job_stage(as_shown(record, RUNNING), CLUSTER, RULES, at(2)).stage is Stage.ACT
    moved = replace(RUNNING, partition="debug")
    assert job_stage(as_shown(record, moved), CLUSTER, RULES, at(2)).stage is Stage.OBSERVE


def test_a_job_that_is_not_shown_keeps_the_partition_it_was_seen_in() -> None:
    record = seen(replace(RUNNING, partition="debug"))
    assert job_stage(as_shown(record, None), CLUSTER, RULES, at(2)).stage is Stage.OBSERVE
