"""Relance's own processes on a site that has its logs in Loki and its metrics in Prometheus, and no file to read."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.rigs import PARTITION, Rig, Setup, injected_at, rig, until
from relance.client.errors import ServerRefusedError
from relance.domain.findings import Sight
from relance.domain.stages import Stage
from relance.testing.clusters import Training
from tests.components.loki import Loki, loki_double
from tests.components.metric_stores import metric_store
from tests.components.shippers import shipping

DELAY_S = 2.0
WITHIN_S = 60.0
SILENCE_S = 12.0


def labelled(path: Path) -> Mapping[str, str]:
    """The labels that this site's agent gives the log of a job."""
    found = re.search(r"-(\d+)\.out", path.name)
    return {"slurm_job_id": found[1] if found else "none", "host": "login1"}


def setup(loki_url: str, prometheus_url: str) -> Setup:
    store = {
        "kind": "loki", "url": loki_url, "job_label": "slurm_job_id", "node_label": "host", "poll_s": 0.5,
        "delay_s": DELAY_S,
    }  # fmt: skip
    return Setup(
        cluster={"nodes": 5, "kill_wait_s": 1.0},
        site={
            "logs": [store],
            "kernel_log": "",
            "metrics": [{"url": prometheus_url, "poll_s": 1.0}],
            "limits": {"settle_s": 0, "grace_after_boot_s": 0},
        },
        stage=Stage.ACT,
    )


def stepping(made: Rig, job: int, beyond: int) -> int:
    """The step of a job that Relance knows of, once it is beyond another."""

    def step() -> int | None:
        try:
            known = made.client.job_check(str(job)).job.step
        except ServerRefusedError:  # the controller has not told of it yet
            return None
        return known if known is not None and known > beyond else None

    return until(step, WITHIN_S, f"a step of job {job} beyond {beyond}")


@pytest.mark.timeout(240)
def test_a_job_is_seen_through_its_stores_alone_and_a_store_that_is_away_harms_nobody(tmp_path: Path) -> None:
    with (
        loki_double(tmp_path) as loki,
        metric_store("prometheus", tmp_path / "metrics") as prometheus,
        rig(setup(loki.url, prometheus.url)) as made,
        shipping(made.cluster.work_dir, "*.out", labelled, loki),
    ):
        job = made.cluster.submit(Training(name="llama", partition=PARTITION, steps=2000, step_s=0.2))
        seen = stepping(made, job, 10)
        _away(loki)
        assert not made.incidents(job)
        stepping(made, job, seen + 20)  # what was written meanwhile is read when it is back
        logs = made.client.job_check(str(job)).logs
        assert [(log.path, log.sight) for log in logs if log.path == "loki"] == [("loki", Sight.SEEN)]
        killed_at = injected_at(made.cluster.ask("kill_rank", job_id=job, rank=3))
        (incident,) = until(lambda: made.incidents(job), WITHIN_S, "an incident")
        assert incident.times.detect is not None
        assert (incident.times.detect.at - killed_at).total_seconds() < DELAY_S + 10.0
        until(
            lambda: [row for row in made.client.job_history(str(job)) if row.event == "ProgressResumed"],
            WITHIN_S, "steps of the next attempt",
        )  # fmt: skip


def _away(loki: Loki) -> None:
    """Have the store answer nothing for a while."""
    loki.fail({"path": "/loki/api/v1/query_range", "status": 503, "times": 10_000})
    time.sleep(SILENCE_S)  # the silence itself is what is tried
    loki.fail()
