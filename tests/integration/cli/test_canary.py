"""`relance canary` on a cluster of simulated nodes: Relance, its jobs and their faults are real processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.rigs import PARTITION, Rig, Setup, rig
from relance.bootstrap.canaries.opening import Place, canary
from relance.bootstrap.canaries.procedures import CanaryReport, Plan
from relance.bootstrap.canaries.trials import BUG, NODE, Trial
from relance.bootstrap.proofs.rows import Level
from relance.cli.main import main
from relance.client.people import ApiClient
from relance.config import SettingError, load_settings
from relance.domain.stages import Stage

PATIENCE_S = 120.0
QUICK = {"limits": {"grace_after_boot_s": 0, "settle_s": 1.0, "self_requeue_grace_s": 1.0}}


def run(on: Rig, trials: Sequence[Trial], *, acts: bool) -> CanaryReport:
    folder = on.folder / "canary"
    folder.mkdir()
    cluster = load_settings(on.relance.config).clusters[0]
    place = Place(partition=PARTITION, folder=folder, patience_s=PATIENCE_S, quiet_s=2.0)
    return canary(cluster, on.client, place, Plan(acts=acts, trials=tuple(trials)), lambda _: None)


def proven(report: CanaryReport) -> set[tuple[str, str]]:
    return {(row.source, row.name) for row in report.rows if row.level is not Level.BAD}


@pytest.mark.timeout(400)
def test_at_act_a_job_comes_back_without_its_node_a_bug_does_not_and_then_it_observes_again() -> None:
    with rig(Setup(stage=Stage.ACT, site={**QUICK, "opt_in": "none"})) as on:
        report = run(on, [NODE, BUG], acts=True)
        assert report.fit, report.rows
        wanted = {("node", "started again"), ("node", "recovered"), ("bug", "left alone"), ("rollback", "left alone")}
        assert wanted <= proven(report)
        (row,) = on.client.stages()
        assert [(each.partition, each.stage) for each in row.partitions] == [(PARTITION, Stage.OBSERVE)]
        assert all(not node.suspicions and not node.exclusions for node in on.client.nodes()), "nodes are blamed for it"
        assert on.client.figures().incidents == 0, "it counts in the figures"
        assert not list((on.folder / "canary").iterdir()), "something of it is left"


@pytest.mark.timeout(300)
def test_where_relance_may_not_act_the_canary_says_why() -> None:
    with rig(Setup(stage=Stage.OBSERVE, site={**QUICK, "opt_in": "none"})) as on:
        folder = on.folder / "canary"
        folder.mkdir()
        words = [
            "canary",
            "--act",
            "--partition",
            PARTITION,
            "--timeout",
            "20s",
            "--folder",
            str(folder),
            "--config",
            str(on.relance.config),
        ]
        words += ["--server", on.relance.server.url, "--token-file", str(on.relance.token_file), "--json"]
        done = CliRunner().invoke(main, words)
        told = json.loads(done.stdout)
        (row,) = (row for row in told["rows"] if row["level"] == "bad")
        assert (done.exit_code, told["fit"], row["name"]) == (5, False, "stage")
        assert "relance mode act" in row["remedy"]
        (kept,) = folder.iterdir()
        assert (kept / "node" / "output.log").read_text(), "what its jobs wrote is gone"


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "relance.yaml"
    file.write_text(
        f"state_dir: {tmp_path}/state\nclusters: [{{name: a, scheduler: {{kind: local, state_dir: {tmp_path}}}}}]\n"
    )
    return file


def test_a_server_that_does_not_answer_is_said_before_any_job_is_submitted(settings: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t\n")
    token.chmod(0o600)
    folder = tmp_path / "canary"
    folder.mkdir()
    words = ["canary", "--folder", str(folder), "--config", str(settings), "--server", "http://127.0.0.1:9"]
    done = CliRunner().invoke(main, [*words, "--token-file", str(token)])
    assert (done.exit_code, list(folder.iterdir())) == (4, []), done.output


def test_a_folder_that_cannot_be_written_is_said(settings: Path) -> None:
    cluster = load_settings(settings).clusters[0]
    with ApiClient("http://127.0.0.1:9", "t") as client, pytest.raises(SettingError, match="name another --folder"):
        canary(cluster, client, Place(partition="", folder=Path("/proc")), Plan(), lambda _: None)
