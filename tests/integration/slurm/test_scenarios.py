"""Scenarios of a real Slurm, side by side on one cluster, with whole Relance at act: what becomes of each job.

Each job is a script of one or two cores that prints steps and ends as it is told; the waits for all of them are one.
Shortened: the settle time (6 s), the intervals at which the queue is read, a node's silence until it is lost (20 s).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from bench.rigs import NO_STORM
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.domain.events import IncidentEnd
from relance.domain.stages import EndRunning
from relance.simulation.private_slurm import ClusterPlan, PartitionPlan
from tests.acceptance.stands import (
    LIMIT_S,
    Postbox,
    command,
    decides_nothing,
    happened,
    postbox,
    relance_on,
    told,
    until,
)
from tests.components.slurm import running_cluster

pytestmark = pytest.mark.timeout(900)

OWNER: Final = "owner1"
TASKS: Final = 24
MANY_TASKS: Final = 200
WAIT_OF_SLURM_S: Final = 100.0
"""Slurm starts what it requeued some two minutes later by itself."""
LIMITS = {
    "settle_s": 6, "grace_after_boot_s": 0, "storms": NO_STORM, "exclusions": {"per_partition_share": 1},
    "hang": {"suspected_min_s": 4},
}  # fmt: skip
STEPS: Final = r"""
steps() {
    n=$1
    while [ "$n" -le "$2" ]; do
        printf ' [%s] iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration (ms): 300.0 | ' \
            "$(date '+%F %T.%6N')" "$n" 300 "$n"
        printf 'learning rate: 1.0E-04 | global batch size:     8 | lm loss: 2.5E+00 | grad norm: 1.0 |\n'
        sleep 0.3
        n=$((n + 1))
    done
}
"""
FAILS_ONCE: Final = f"""#!/bin/sh
{STEPS}
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then
    steps 1 30
    exit 0
fi
echo "only the first attempt says this"
steps 1 20
exit 9
"""
STAYS: Final = f"#!/bin/sh\n{STEPS}\nsteps 1 2000\n"
HANGS: Final = (
    f'#!/bin/sh\n{STEPS}\nsteps 1 20\n[ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ] || exec sleep 900\nsteps 1 2000\n'
)
BUG: Final = """#!/bin/sh
echo 'Traceback (most recent call last):'
echo '  File "/home/owner1/train.py", line 12, in <module>'
echo '    import tokens'
echo "ModuleNotFoundError: No module named 'tokens'"
exit 1
"""
HET: Final = f"""#!/bin/sh
#SBATCH --ntasks=1
#SBATCH hetjob
#SBATCH --ntasks=1
{FAILS_ONCE.removeprefix("#!/bin/sh")}"""
PARTITIONS: Final = (
    PartitionPlan(name="usual", nodes=("gpu001", "gpu002", "gpu003"), options="Default=YES"),
    PartitionPlan(name="lost", nodes=("gpu004", "gpu005")),
    PartitionPlan(name="sick", nodes=("gpu006",)),
)
PROLOG: Final = '#!/bin/sh\n[ "$SLURM_JOB_PARTITION" != sick ]\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Relance on the cluster, and the jobs by the names of their scenarios."""

    site: SlurmSite
    box: Postbox
    """What operators are told."""
    lost_node: str = ""
    jobs: dict[str, int] = field(default_factory=dict)

    def tasks(self, name: str) -> tuple[int, ...]:
        """The raw ids of an array's tasks."""
        argv = ["squeue", "--noheader", "--states=all", "--array", f"--jobs={self.jobs[name]}", "--format=%A"]
        return tuple(int(each) for each in self.site.cluster.must("root", argv).split())

    def submit(self, name: str, script: str, *options: str) -> int:
        """Submit a job of the scenario; gives its id."""
        words = [f"--job-name={name}", f"--output={name}-%j.out", "--time=30", *options]
        if not any(each.startswith(("--ntasks", "--array")) for each in options) and script is not HET:
            words.append("--ntasks=1")
        self.jobs[name] = self.site.cluster.submit(OWNER, script, options=words)
        return self.jobs[name]

    def log(self, name: str) -> str:
        """What is in the output of a scenario's job now."""
        path = self.site.cluster.work_dir(OWNER) / f"{name}-{self.jobs[name]}.out"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def fields(self, name: str) -> dict[str, str]:
        """What Slurm shows of it."""
        return self.site.cluster.job_fields(self.jobs[name])

    def is_again(self, name: str, *states: str) -> bool:
        """Whether its second attempt is in one of these states."""
        fields = self.fields(name)
        return (fields["Restarts"], fields["JobState"] in states) == ("1", True)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """All jobs submitted, a node lost."""
    with contextlib.ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="relance-prolog-")))
        folder.chmod(0o755)
        prolog = folder / "prolog"
        prolog.write_text(PROLOG)
        prolog.chmod(0o755)
        plan = ClusterPlan(
            node_count=6,
            cpus_per_node=16,
            slurmd_timeout_s=20,
            partitions=PARTITIONS,
            extra_lines=(f"Prolog={prolog}",),
        )
        cluster = running.enter_context(running_cluster(plan))
        box = postbox(cluster.work_dir(OWNER) / "operators")
        setup = SlurmSetup(
            scheduler=FAST_POLLS,
            site={"limits": LIMITS},
            settings={"notify": {"command": [str(box.command)]}},
            end_running=frozenset({EndRunning.HANG}),
        )
        made = Scene(site=running.enter_context(relance_on(cluster, setup)), box=box)
        made.submit("lost", STAYS, "--partition=lost")
        made.submit("hung", HANGS, "--comment=relance:act,hang=15")
        made.submit("sick", STAYS, "--partition=sick")
        first = made.submit("first", FAILS_ONCE)
        second = made.submit("second", "#!/bin/sh\nexit 0\n", f"--dependency=afterok:{first}")
        made.submit("third", "#!/bin/sh\nexit 0\n", f"--dependency=afterok:{second}")
        made.submit("truncated", FAILS_ONCE, "--open-mode=truncate")
        made.submit("het", HET)
        made.submit("unarmed", FAILS_ONCE, "--no-requeue")
        made.submit("unread", FAILS_ONCE, '--comment={"relance": {"mode": "act"')
        made.submit("array", BUG, f"--array=1-{TASKS}", "--ntasks=1")
        made.site.wait_for_step(made.jobs["lost"], 5, LIMIT_S)
        lost = made.fields("lost")["NodeList"]
        cluster.stop_node(lost)
        yield replace(made, lost_node=lost)


def _again(scene: Scene, name: str, *states: str) -> None:
    until(lambda: scene.is_again(name, *states), LIMIT_S, f"the second attempt of {name}")


def _recovered(scene: Scene, name: str) -> None:
    """Its one incident ended by a step beyond the old ones, and Relance carried out one action."""
    job = scene.jobs[name]
    scene.site.wait_for_end_of_incident(job, LIMIT_S)
    assert [item.end for item in scene.site.incidents(job)] == [IncidentEnd.RECOVERED], told(scene.site, job)
    rows = happened(scene.site, job)
    assert sum(row.event == "ActionStarted" for row in rows) == 1, rows


def test_a_chain_of_three_completes_after_its_first_job_failed_and_came_back(scene: Scene) -> None:
    for name in ("first", "second", "third"):
        scene.site.cluster.wait_for_state(scene.jobs[name], "COMPLETED", time_limit_s=LIMIT_S)
    assert [scene.fields(name)["Restarts"] for name in ("first", "second", "third")] == ["1", "0", "0"]
    _recovered(scene, "first")


def test_what_a_restart_empties_of_a_log_is_kept_and_found(scene: Scene) -> None:
    _again(scene, "truncated", "COMPLETED")
    _recovered(scene, "truncated")
    job = scene.jobs["truncated"]
    assert "only the first attempt says this" not in scene.log("truncated"), "the file was emptied"
    assert "only the first attempt says this" in command(scene.site, "tail", str(job))
    assert f"relance tail {job}" in told(scene.site, job)


def test_a_het_job_comes_back_with_all_its_components(scene: Scene) -> None:
    _again(scene, "het", "COMPLETED")
    _recovered(scene, "het")
    other = scene.site.cluster.job_fields(f"{scene.jobs['het']}+1")
    assert (other["JobState"], other["Restarts"]) == ("COMPLETED", "1")


def test_a_hung_job_is_ended_by_consent_and_goes_on(scene: Scene) -> None:
    _again(scene, "hung", "RUNNING")
    _recovered(scene, "hung")
    assert "hang" in told(scene.site, scene.jobs["hung"])


def test_a_job_that_slurm_requeued_from_a_lost_node_starts_at_once_and_elsewhere(scene: Scene) -> None:
    _again(scene, "lost", "RUNNING")
    _recovered(scene, "lost")
    fields = scene.fields("lost")
    assert fields["NodeList"] != scene.lost_node, "it runs where it was lost"
    began, requeued = (datetime.fromisoformat(fields[key]) for key in ("StartTime", "SubmitTime"))
    assert (began - requeued).total_seconds() < WAIT_OF_SLURM_S, "Slurm's wait of two minutes was not cut short"
    wrong = [row.title for row in happened(scene.site, scene.jobs["lost"]) if "requeue" in row.detail
             and row.event == "ActionStepped"]  # fmt: skip
    assert wrong == [], "it was in the queue again already"


def test_a_job_that_may_not_be_requeued_is_left_and_its_owner_told_what_helps(scene: Scene) -> None:
    job = scene.jobs["unarmed"]
    scene.site.wait_for_end_of_incident(job, LIMIT_S)
    text = told(scene.site, job)
    assert "its owner has to submit it again" in text
    assert "arm_requeue" in text
    assert decides_nothing(scene.site, job) == []
    assert (scene.fields("unarmed")["JobState"], scene.fields("unarmed")["Restarts"]) == ("FAILED", "0")


def test_a_comment_that_cannot_be_read_is_told_and_the_job_is_only_watched(scene: Scene) -> None:
    job = scene.jobs["unread"]
    until(lambda: "we would restart" in told(scene.site, job), LIMIT_S, "the advice")
    text = told(scene.site, job)
    assert "the comment is not JSON" in text
    assert "stays in observe" in text
    assert decides_nothing(scene.site, job) == []
    assert (scene.fields("unread")["JobState"], scene.fields("unread")["Restarts"]) == ("FAILED", "0")


def test_a_job_whose_prolog_failed_is_told_with_the_choice_to_release_it_and_left_as_it_is(scene: Scene) -> None:
    job = scene.jobs["sick"]
    until(lambda: "scontrol release" in told(scene.site, job), LIMIT_S, "the choice to release it")
    assert "the scheduler could not start it, and holds it" in told(scene.site, job)
    changes = [row.detail for row in happened(scene.site, job) if row.event == "OutsideChangeSeen"]
    assert any("by scheduler" in detail for detail in changes), changes
    assert not any("by user" in detail for detail in changes), "no person held it"
    assert decides_nothing(scene.site, job) == []
    fields = scene.fields("sick")
    assert (fields["JobState"], fields["Reason"]) == ("PENDING", "launch_failed_requeued_held")


def test_tasks_of_an_array_that_fail_together_are_decided_once_and_told_once(scene: Scene) -> None:
    _decided_once(scene, "array", TASKS)


@pytest.mark.soak
def test_two_hundred_tasks_that_fail_together_are_decided_once_and_told_once(scene: Scene) -> None:
    scene.submit("many", BUG, f"--array=1-{MANY_TASKS}", "--ntasks=1")
    _decided_once(scene, "many", MANY_TASKS)


def _decided_once(scene: Scene, name: str, tasks: int) -> None:
    """All tasks of an array are stopped, and operators are told of it once for each cause that was found."""

    def ids() -> tuple[int, ...]:
        found = scene.tasks(name)
        return found if len(found) == len(set(found)) == tasks else ()

    def letters() -> list[str]:
        return [letter for letter in scene.box.letters if json.loads(letter).get("facts", {}).get("name") == name]

    found = until(ids, LIMIT_S, f"{tasks} tasks of the array {name}") or ()
    for job in found:
        scene.site.wait_for_end_of_incident(job, LIMIT_S)
    items = [item for job in found for item in scene.site.incidents(job)]
    assert len(items) == tasks
    assert {item.end for item in items} == {IncidentEnd.STOPPED}
    assert [wrong for job in found for wrong in decides_nothing(scene.site, job)] == []
    # A machine that stands still may have tasks judged before their lines are read: that is another cause.
    causes = {row.title for job in found for row in happened(scene.site, job) if row.event == "VerdictReached"}
    until(letters, LIMIT_S, "a word to operators")
    assert len(letters()) <= len(causes), "\n".join([*letters(), *causes])
