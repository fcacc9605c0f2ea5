"""`relance canary` as a site runs it on a real Slurm, with the real watchdog beside a controller that is stopped.

It takes minutes, most of them spent waiting for Slurm to be about to forget a job: MinJobAge is 75 s in place of 300.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from bench.rigs import NO_STORM
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.domain.stages import Stage
from relance.simulation.private_slurm import ClusterPlan
from relance.testing.other_users import user_of
from tests.acceptance.stands import relance_on
from tests.components.slurm import running_cluster

OWNER = "owner1"
LIMITS = {"grace_after_boot_s": 0, "storms": NO_STORM, "exclusions": {"per_partition_share": 1}}
WAIT = "sh -c 'touch {folder}/{asked}; until [ -e {folder}/{done} ]; do sleep 0.2; done'"
"""What stops or starts the controller: it asks whoever has it as a child, and waits, as `systemctl` does."""


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_whole_canary_passes_and_the_watchdog_saves_the_job_of_a_stopped_controller() -> None:
    with running_cluster(ClusterPlan(node_count=4, min_job_age_s=75)) as cluster:
        setup = SlurmSetup(
            scheduler=FAST_POLLS,
            site={"limits": LIMITS, "opt_in": "none"},
            apart=True,
            watchdog={"stage": "act", "every_s": 1.0},
        )
        with relance_on(cluster, setup) as site:
            report = canary(site, cluster.work_dir(OWNER) / "canary")
            rows = {(row["source"], row["name"]): row for row in report["rows"]}
            assert report["fit"], report["rows"]
            wanted = {("node", "recovered"), ("bug", "left alone"), ("cancel", "judged"), ("watchdog", "saved"),
                      ("watchdog", "told"), ("rollback", "observe"), ("rollback", "left alone")}  # fmt: skip
            assert wanted <= set(rows), report["rows"]
            (stages,) = site.client.stages()
            assert [(each.partition, each.stage) for each in stages.partitions] == [("gpu", Stage.OBSERVE)]
            assert cluster.run_as("root", ["squeue", "--noheader"]).stdout == "", "something of it is left"


def canary(site: SlurmSite, folder: Path) -> dict[str, Any]:
    """Run the command as an owner, and stop and start the controller when it asks for it; gives what it printed."""
    owner = user_of(OWNER)
    folder.mkdir()
    token = folder / "token"
    token.write_text(f"{site.relance.server.token}\n")
    token.chmod(0o600)
    for path in (folder, token):
        os.chown(path, owner.uid, owner.gid)
    words = [
        *("--act", "--partition", "gpu", "--timeout", "4m", "--json"),
        *("--folder", str(folder), "--config", str(site.relance.config)),
        *("--server", site.relance.server.url, "--token-file", str(token)),
        *("--stop-controller", WAIT.format(folder=folder, asked="stop", done="stopped")),
        *("--start-controller", WAIT.format(folder=folder, asked="start", done="started")),
    ]
    argv = site.cluster.argv_as(OWNER, [site.python.program, "-m", "relance", "canary", *words])
    env = {**site.cluster.env_of(OWNER), **site.python.environment()}
    with (
        (site.folder / "canary.out").open("wb") as out,
        subprocess.Popen(argv, env=env, cwd=folder, stdout=out, stdin=subprocess.DEVNULL) as process,
    ):
        while process.poll() is None:
            if (folder / "stop").exists() and not (folder / "stopped").exists():
                site.relance.role("controller").stop()
                (folder / "stopped").touch()
            if (folder / "start").exists() and not (folder / "started").exists():
                site.relance.start_role("controller")
                (folder / "started").touch()
            time.sleep(0.2)
    said = (site.folder / "canary.out").read_text()
    assert process.returncode in (0, 5), said
    found: dict[str, Any] = json.loads(said)
    return found
