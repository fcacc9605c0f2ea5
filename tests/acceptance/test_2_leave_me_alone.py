"""Acceptance test 2: whatever a sound training does, it is left alone, with every consent given.

All of it at once, on one cluster. Shortened, so that there is something to get wrong: a hang is suspected after 4 s and
confirmed by a sign after 10 s, a dead rank is proven after 10 s of silence, and some jobs' own wish calls a short
silence a hang. What befalls them lasts longer than those limits; minutes, and a save without a word, are for the soak.
`gdb` is left out where it is not installed. No GPU runs out of memory here: the training says so as torch does, and
goes on. The script's retry of `srun` comes after half a minute in place of two.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Final

import pytest

from bench.rigs import NO_STORM
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.domain.stages import EndRunning
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.testing.clusters import Training
from tests.acceptance.shells import Quiet, scripts
from tests.acceptance.stands import LIMIT_S, command, decides_nothing, happened, relance_on, until

LIMITS = {
    "settle_s": 1, "grace_after_boot_s": 0, "storms": NO_STORM, "dead_rank_min_s": 10,
    "hang": {"suspected_min_s": 4, "signed_min_s": 10},
}  # fmt: skip
PLAN: Final = ClusterPlan(node_count=4, cpus_per_node=8, extra_lines=("RebootProgram=/bin/true",))
IDLE_NODE: Final = "gpu004"
HOLDS: Final = ("somebody is at work in the job", "the attempt runs, and nothing proves that it cannot go on")
LIVING: Final = ("RUNNING", "PENDING", "COMPLETING", "SUSPENDED")


def training(name: str, steps: int, *options: str, comment: str = "") -> Training:
    """A training in small, of two ranks."""
    return Training(
        name=name, nodes=2, ranks_per_node=1, step_s=0.5, steps=steps, checkpoint_every=20, comment=comment,
        options=options,
    )  # fmt: skip


def trainings(quiet: Quiet) -> list[Training]:
    """The trainings in small."""
    recompiles = f"pause:at=13,s={quiet.silence_s}"
    found = [
        training("slow-save", 22, "--save-s", str(quiet.hang_s + 4), comment=quiet.wish),
        training("out-of-memory", 25, "--scenario", "frightening:at=12", "--scenario", recompiles),
        training("suspended", 25, comment=quiet.wish),
    ]
    return [*found, training("debugged", 25, comment=quiet.wish)] if _has_gdb() else found


def submitted(site: SlurmSite, quiet: Quiet) -> dict[str, int]:
    """All jobs, by name."""
    place = site.trainings.work_dir
    jobs = {each.name: site.trainings.submit(each) for each in trainings(quiet)}
    for name, (script, comment) in scripts(quiet, place / "silent", site.python.program).items():
        options = [f"--job-name={name}", "--ntasks=1", "--output=%x-%j.out", f"--comment={comment}"]
        jobs[name] = site.cluster.submit(site.owner, script, options=options, cwd=place)
    return jobs


@pytest.mark.parametrize(
    "quiet",
    [
        pytest.param(Quiet(hang_s=13, silence_s=22), id="seconds"),
        pytest.param(Quiet(hang_s=75, silence_s=150, unsaid_save=True), marks=pytest.mark.soak, id="minutes"),
    ],
)
@pytest.mark.timeout(900)
def test_a_sound_training_is_never_touched_whatever_it_looks_like(
    private_slurm: Callable[[ClusterPlan], RunningCluster], quiet: Quiet
) -> None:
    """Acceptance test 2: no action and no advice to end a running job; where it holds, it says why in words."""
    cluster = private_slurm(PLAN)
    setup = SlurmSetup(scheduler=FAST_POLLS, site={"limits": LIMITS}, end_running=frozenset(EndRunning))
    with relance_on(cluster, setup) as site:
        cluster.must("root", ["scontrol", "update", f"NodeName={IDLE_NODE}", "State=DRAIN", "Reason=a new driver"])
        cluster.must("root", ["scontrol", "reboot", "ASAP", IDLE_NODE])
        jobs = submitted(site, quiet)
        for name in ("suspended", "debugged"):
            if name in jobs:
                site.wait_for_step(jobs[name], 6, LIMIT_S)
        cluster.must("root", ["scontrol", "suspend", str(jobs["suspended"])])
        if "debugged" in jobs:
            _debug(site, jobs["debugged"], quiet)
        else:
            time.sleep(quiet.silence_s)  # how long it is suspended is what is tried
        cluster.must("root", ["scontrol", "resume", str(jobs["suspended"])])
        for name, job in jobs.items():
            limit_s = LIMIT_S + quiet.silence_s
            until(lambda job=job: site.state(job) not in LIVING, limit_s, f"the end of {name}")  # type: ignore[misc]
        assert _touched(site, jobs) == []
        if "debugged" in jobs:
            said = "".join(command(site, "explain", item.id) for item in site.incidents(jobs["debugged"]))
            assert any(words in said for words in HOLDS), said
        assert not [row for row in site.client.nodes(site.name) if row.exclusions]


def _touched(site: SlurmSite, jobs: dict[str, int]) -> list[str]:
    """How a job was not left alone."""
    wrong: list[str] = []
    for name, job in jobs.items():
        fields = site.cluster.job_fields(job)
        if (fields["JobState"], fields["Restarts"]) != ("COMPLETED", "0"):
            wrong.append(f"{name}: {fields['JobState']}, restart count {fields['Restarts']}")
        wrong += [f"{name}: {each}" for each in decides_nothing(site, job)]
        wrong += [f"{name}: {row.title}: {row.detail}" for row in happened(site, job) if _would_end_it(row.title)]
    return wrong


def _would_end_it(title: str) -> bool:
    """Whether an advice would start again, or end, what runs: one that holds says so first."""
    return title.startswith("Advice") and any(f": {word}" in title for word in ("restart", "stop"))


def _has_gdb() -> bool:
    return shutil.which("gdb") is not None


def _debug(site: SlurmSite, job: int, quiet: Quiet) -> None:
    """The owner stops a rank in a debugger for a while, by a step beside the training's."""
    pid = (site.trainings.work_dir / "ranks" / f"{job}.0.0").read_text(encoding="ascii")
    node = str(site.trainings.job(job)["node_list"][0])
    done = site.cluster.run_as(
        site.owner,
        [
            "srun", f"--jobid={job}", "--overlap", "--ntasks=1", "--nodes=1", f"--nodelist={node}",
            "gdb", "--batch", "-p", pid, "-ex", f"shell sleep {quiet.silence_s}", "-ex", "detach",
        ],
        time_limit_s=quiet.silence_s + LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
