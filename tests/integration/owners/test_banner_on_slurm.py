"""A real Slurm runs the how-to's TaskProlog, and the banner stands at the top of the restarted job's output."""

from __future__ import annotations

import pwd
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from relance.domain import events as e
from relance.serving.owners import Owners
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.slurm.munge import SOCKET_VARIABLE, Munge
from relance.testing import history_values as values
from relance.testing.other_users import open_python, user_of
from tests.components.slurm import private_slurm
from tests.layers import ROOT
from tests.served.servers import served
from tests.served.worlds import World, world

__all__ = ["private_slurm"]

PATIENCE_S = 60.0
SCRIPT = "#!/bin/sh\nsrun -n 2 sh -c 'echo step of task $SLURM_PROCID'\necho batch $SLURM_RESTART_COUNT\nsleep 600\n"


def task_prolog() -> str:
    """The script of the how-to."""
    text = (ROOT / "docs" / "how-to" / "let-researchers-ask.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", text, re.DOTALL)
    return str(found)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter."""
    made = Path(tempfile.mkdtemp(prefix="relance-prolog-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def install(folder: Path, cluster: RunningCluster, url: str) -> None:
    """Write the how-to's script, with Relance where the tests have it."""
    python = open_python(folder, user_of("nobody"))
    names = {
        **python.environment(),
        "RELANCE_SERVER": url,
        SOCKET_VARIABLE: cluster.munge_socket,
    }
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in names.items())
    command = f"{exports} {shlex.quote(python.program)} -m relance banner --time-limit 20"
    text = task_prolog().replace("/opt/relance/.venv/bin/relance-banner", command)
    assert command in text
    script = folder / "task-prolog"
    script.write_text(text)
    script.chmod(0o755)


def wait_for(said: Callable[[], str], words: str) -> str:
    """What is said, once it has these words."""
    give_up_at = time.monotonic() + PATIENCE_S
    while words not in (text := said()):
        assert time.monotonic() < give_up_at, text
        time.sleep(0.1)
    return text


async def failed(made: World, job: int, uid: int) -> None:
    """The history knows of the first attempt's end."""
    seen, *story = values.whole_story(str(job))
    assert isinstance(seen, e.JobSeen)
    await made.append(values.job_stream(str(job)), replace(seen, owner_uid=uid), *story)


def test_the_banner_stands_at_the_top_of_the_restarted_jobs_output(
    private_slurm: Callable[[ClusterPlan], RunningCluster], folder: Path
) -> None:
    cluster = private_slurm(ClusterPlan(node_count=1, extra_lines=(f"TaskProlog={folder}/task-prolog",)))
    with served(lambda: world(owners=Owners(Munge(socket=cluster.munge_socket)))) as server:
        install(folder, cluster, server.url)
        job = cluster.submit("owner1", SCRIPT, options=["--ntasks=2"])
        output = cluster.work_dir("owner1") / f"slurm-{job}.out"

        def said() -> str:
            return output.read_text() if output.exists() else ""

        first = wait_for(said, "batch")
        assert "relance" not in first
        server.do(failed(server.world, job, pwd.getpwnam("owner1").pw_uid))
        cluster.must("root", ["scontrol", "requeue", str(job)])
        cluster.wait_for_state(job, "PENDING")
        time.sleep(1.1)  # a restart sooner may die at launch
        cluster.must("root", ["scontrol", "update", f"JobId={job}", "StartTime=now"])
        second = wait_for(said, "batch 1")
    lines = second.splitlines()
    assert lines[0].startswith("relance: attempt 2 of at most 21 · attempt 1 ended 12:00:02 UTC"), second
    assert lines[2] == "relance: did: requeued without n1"
    assert sum(line.startswith("relance: attempt 2") for line in lines) == 2, "once for the batch script, once a step"
    assert sorted(line for line in lines if line.startswith("step")) == ["step of task 0", "step of task 1"]
