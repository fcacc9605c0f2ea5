"""`relance check signals` and `check marker` against a simulated cluster, log stores' doubles and a real Prometheus."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from relance.cli.main import main
from relance.ports.clocks import SystemClock
from relance.testing.clusters import SimulatedCluster, Training
from tests.components import loki, victorialogs
from tests.components.metric_stores import KINDS, Kind, MetricStore, Written, metric_store
from tests.components.shippers import Pushed, shipping

STEPS_LIMIT_S = 60.0
SHIPPED_LIMIT_S = 45.0
RUN = CliRunner()
SITE = secrets.token_hex(4)
"""A label of all lines of these tests: a real store may have others."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCluster]:
    with SimulatedCluster(tmp_path_factory.mktemp("cluster"), {}) as running:
        yield running


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """A Loki and a VictoriaLogs: doubles, or the real ones that are named to the tests."""
    with ExitStack() as held:
        real_loki, real_logs = loki.REAL_URL, victorialogs.REAL_URL
        yield {
            "loki": loki.Loki(real_loki)
            if real_loki
            else held.enter_context(loki.loki_double(tmp_path_factory.mktemp("loki"))),
            "victorialogs": victorialogs.VictoriaLogs(real_logs)
            if real_logs
            else held.enter_context(victorialogs.victorialogs_double(tmp_path_factory.mktemp("victorialogs"))),
        }


@pytest.fixture
def settings(cluster: SimulatedCluster, stores: Mapping[str, Any], tmp_path: Path) -> Callable[..., Path]:
    """Writes the settings of a site, its stores changed by kind."""

    def write(metrics: MetricStore | None = None, **changes: Mapping[str, object]) -> Path:
        logs: list[Mapping[str, object]] = [{"kind": "files"}]
        of_us = {"match": {"site": SITE}}
        logs += [{"kind": kind, "url": store.url, **of_us, **changes.get(kind, {})} for kind, store in stores.items()]
        site: dict[str, object] = {
            "name": "alpha", "scheduler": {"state_dir": str(cluster.state_dir)}, "logs": logs,
            "log_roots": [str(cluster.state_dir)], "kernel_log": cluster.kernel_log,
        }  # fmt: skip
        if metrics is not None:
            site["metrics"] = [{"url": metrics.url, **changes.get("prometheus", {})}]
        file = tmp_path / "relance.yaml"
        file.write_text(yaml.safe_dump({"state_dir": str(tmp_path / "state"), "clusters": [site]}))
        return file

    return write


def relance(*words: object) -> Result:
    return RUN.invoke(main, ["check", *map(str, words)], env={"RELANCE_STATE_DIR": ""})


def labelled(path: Path) -> Mapping[str, str]:
    """The labels of a job's log, by the id in its name and the node that a marker names."""
    found = re.search(r"-(\d+)\.out", path.name)
    node = re.search(r"relance-marker \w+ [\d.]+ (\S+)", path.read_text())
    return {"site": SITE, "job_id": found[1] if found else "none", "node": node[1] if node else "node001"}


def started(cluster: SimulatedCluster, name: str) -> int:
    """A training that has made some steps."""
    job = cluster.submit(Training(name=name, nodes=2, steps=2000, step_s=0.2))
    log, end = cluster.work_dir / f"{name}-{job}.out", time.monotonic() + STEPS_LIMIT_S
    while not log.exists() or log.read_text().count("iteration ") < 5:
        assert time.monotonic() < end, cluster.ask("job", job_id=job)
        time.sleep(0.1)
    return job


@pytest.fixture(params=KINDS)
def metrics(request: pytest.FixtureRequest, cluster: SimulatedCluster, tmp_path: Path) -> Iterator[MetricStore]:
    """A metric store with the GPUs of all nodes, known by long names."""
    kind: Kind = request.param
    nodes = [str(node["name"]) for node in cluster.ask("nodes")["nodes"]]
    now = SystemClock().now().timestamp()
    with metric_store(kind, tmp_path / "metrics") as store:
        store.write(
            Written(
                name="DCGM_FI_DEV_GPU_UTIL",
                labels={"Hostname": f"{node}.example.org", "gpu": "0"},
                samples=[(now - 40.0, 97.0), (now - 35.0, 98.0)],
            )
            for node in nodes
        )
        yield store


def test_signals_that_arrive_are_fit_and_those_that_do_not_say_what_mends_them(
    cluster: SimulatedCluster, stores: Mapping[str, Pushed], settings: Callable[..., Path], metrics: MetricStore
) -> None:
    job = started(cluster, "healthy")
    with shipping(cluster.work_dir, f"healthy-{job}.out", labelled, *stores.values()) as shipped:
        assert shipped.wait(SHIPPED_LIMIT_S)
        long_names = {"node_value": "{node}.example.org"}
        good = relance(
            "signals", "--config", settings(metrics, prometheus=long_names), "--job", job, "--json", "--watch", "3s"
        )
        assert good.exit_code == 0, good.output
        found = json.loads(good.stdout)
        rows = {(row["source"], row["name"]): row for row in found["rows"]}
        assert found["fit"]
        for source in ("files", "loki", "victorialogs"):
            assert "as megatron" in rows[source, f"progress of {job}"]["read"], rows
        for source in ("loki", "victorialogs"):
            assert rows[source, "lateness"]["level"] == "ok"
            assert rows[source, "filter of lines of jobs"]["level"] == "ok"
            assert re.match(r"\d\.\d s in the middle", rows[source, "lateness"]["read"]), rows[source, "lateness"]
        assert rows["prometheus", "names of nodes"]["level"] == "ok"
        assert rows["prometheus", "samples"]["level"] == "ok"

        wrong = settings(metrics, loki={"job_label": "slurm_job"}, victorialogs={"node_value": "{node}.site"})
        bad = relance("signals", "--config", wrong, "--job", job, "--watch", "1s", "--rules")
        assert bad.exit_code == 5
        assert 'set job_label: job_id and job_value: "{raw_id}"' in bad.stdout
        assert 'set node_value: "{node}" for this source' in bad.stdout
        assert 'set node_value: "{node}.example.org" for this source' in bad.stdout
        assert "metric-nic-down" in bad.stdout or "metrics of node_exporter" in bad.stdout
        assert "not all signals of alpha arrive" in bad.stderr
    cluster.ask("cancel", job_id=job)


def test_a_marker_comes_out_of_each_source_with_how_late_it_was(
    cluster: SimulatedCluster, stores: Mapping[str, Pushed], settings: Callable[..., Path]
) -> None:
    output = cluster.work_dir / "marker-%j.out"
    with shipping(cluster.work_dir, "marker-*.out", labelled, *stores.values()):
        told = relance("marker", "--config", settings(), "--output", output, "--timeout", "30s", "--json")
    found = json.loads(told.stdout)
    rows = {(row["source"], row["name"]): row for row in found["rows"]}
    assert {source for source, name in rows if name == "marker"} == {"scheduler", "files", "loki", "victorialogs"}
    for source in ("files", "loki", "victorialogs"):
        assert re.search(r"\d\.\d s after it was written", rows[source, "marker"]["read"]), rows
    assert rows["scheduler", "clock of the node"]["level"] == "ok"
    assert told.exit_code == 0, told.output


def test_a_marker_that_goes_astray_is_found_where_it_went(
    cluster: SimulatedCluster, stores: Mapping[str, Pushed], settings: Callable[..., Path]
) -> None:
    output = cluster.work_dir / "marker-%j.out"

    def elsewhere(path: Path) -> Mapping[str, str]:
        return {"site": SITE, "job": f"slurm-{labelled(path)['job_id']}", "host": "node001"}

    with shipping(cluster.work_dir, "marker-*.out", elsewhere, *stores.values()):
        told = relance("marker", "--config", settings(), "--output", output, "--timeout", "6s")
    assert told.exit_code == 5
    assert told.stdout.count('set job_label: job and job_value: "slurm-{raw_id}"') == 2, told.stdout


def test_a_store_that_is_away_and_one_that_is_a_login_page_are_red_rows(
    settings: Callable[..., Path], stores: Mapping[str, Any]
) -> None:
    away = settings(loki={"url": "http://127.0.0.1:9"}, victorialogs={"url": stores["loki"].url})
    told = relance("signals", "--config", away, "--json")
    assert told.exit_code == 5
    rows = [row for row in json.loads(told.stdout)["rows"] if row["level"] == "bad"]
    assert [(row["source"], row["name"]) for row in rows] == [("loki", "answers"), ("victorialogs", "answers")]
    assert all(row["remedy"] for row in rows)
