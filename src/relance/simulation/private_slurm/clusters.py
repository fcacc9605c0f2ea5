"""A private cluster that runs: whoever has this value can use it, from any process of this machine."""

from __future__ import annotations

import json
import os
import pwd
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from relance.simulation.private_slurm import keeper
from relance.simulation.private_slurm.daemons import LOOK_EVERY_S, Daemons
from relance.simulation.private_slurm.failures import PrivateSlurmError, tail
from relance.simulation.private_slurm.layouts import Layout
from relance.simulation.private_slurm.leftovers import kill_jobs_on
from relance.simulation.private_slurm.plans import ClusterPlan
from relance.simulation.private_slurm.programs import Programs
from relance.simulation.private_slurm.starting import node_states, start_again, start_and_wait, wait_until_answering

_STOP_LIMIT_S = 30.0
_LOG_LINES = 30
_FIELD = re.compile(r"(?:^|\s)([A-Za-z:/]+)=(.*?)(?=\s[A-Za-z:/]+=|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCluster:
    """A cluster on 127.0.0.1, and what can be done with it. Its methods block; none changes this machine's own Slurm.

    Attributes:
        plan: What was asked for.
        folder: Everything of it; goes with it.
        ports: The port of `slurmctld`, of `slurmdbd` and of each node.
    """

    plan: ClusterPlan
    folder: str
    ports: Mapping[str, int]

    @property
    def layout(self) -> Layout:
        """Where things lie in the folder."""
        return Layout(Path(self.folder))

    @property
    def slurm_conf(self) -> str:
        """The path of slurm.conf."""
        return str(self.layout.slurm_conf)

    @property
    def munge_socket(self) -> str:
        """The socket of its munged: `munge --socket=…`, `unmunge --socket=…`. Slurm's commands know it already."""
        return str(self.layout.munge_socket)

    @property
    def env(self) -> dict[str, str]:
        """The environment in which Slurm's commands speak with this cluster: SLURM_CONF, PATH, library path."""
        return {**Programs(prefix=self.plan.prefix).env, "SLURM_CONF": self.slurm_conf}

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each daemon that runs: munged, mariadbd, slurmdbd, slurmctld, and each node's name."""
        names = ("munged", "mariadbd", "slurmdbd", "slurmctld", *self.plan.nodes)
        return {name: pid for name in names if (pid := self._daemons.pid(name)) is not None}

    def to_json(self) -> str:
        """The cluster as text, for another process."""
        return json.dumps({"plan": self.plan.to_json(), "folder": self.folder, "ports": dict(self.ports)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The cluster that `to_json` gave."""
        known = json.loads(text)
        return cls(**{**known, "plan": ClusterPlan.from_json(known["plan"])})

    def work_dir(self, user: str) -> Path:
        """A folder that belongs to this user and that everybody may read: where their jobs start by default."""
        return self.layout.work / user

    def env_of(self, user: str) -> dict[str, str]:
        """The whole environment in which `run_as` runs a command of this user; nothing of this process's own."""
        return {**self.env, "USER": user, "LOGNAME": user, "HOME": str(self.work_dir(user)), "LANG": "C.UTF-8"}

    def argv_as(self, user: str, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` as this user, for whoever starts it by other means (root only)."""
        account = pwd.getpwnam(user)
        ids = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}"]
        return ["setpriv", *ids, "--clear-groups", "--", *argv]

    def run_as(
        self,
        user: str,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        time_limit_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a system user and wait for its end; it is not an error when the command fails.

        Args:
            user: Who; `root` is allowed.
            argv: The command; looked up in the PATH of this cluster.
            cwd: Where; the user's work folder by default.
            env: Added to `env_of(user)`.
            stdin: Text on its standard input; nothing by default.
            time_limit_s: The longest run.

        Raises:
            subprocess.TimeoutExpired: It ran longer.
        """
        account = pwd.getpwnam(user)
        return subprocess.run(
            argv,
            cwd=cwd or (self.folder if user == "root" else self.work_dir(user)),
            env={**self.env_of(user), **(env or {})},
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            input=stdin or "",
            check=False,
            capture_output=True,
            text=True,
            timeout=time_limit_s,
        )

    def must(self, user: str, argv: Sequence[str]) -> str:
        """Run a command as a user; gives its output.

        Raises:
            PrivateSlurmError: It failed; the text has what it said.
        """
        done = self.run_as(user, argv)
        if done.returncode != 0:
            raise PrivateSlurmError(f"{user}: {' '.join(argv)} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def submit(self, user: str, script: str, *, options: Sequence[str] = (), cwd: Path | None = None) -> int:
        """Submit a batch script as a user; gives the job id.

        Args:
            user: The owner.
            script: The text of the script, from `#!` on.
            options: Options of sbatch: `["--partition=t1", "--nodes=2"]`.
            cwd: Where the job starts; the user's work folder by default. Output goes there as `slurm-%j.out`.

        Raises:
            PrivateSlurmError: It was refused; the text has the reason.
        """
        done = self.run_as(user, ["sbatch", "--parsable", *options], stdin=script, cwd=cwd)
        if done.returncode != 0:
            raise PrivateSlurmError(f"sbatch as {user} was refused: {done.stderr.strip()}")
        return int(done.stdout.split(";")[0])

    def job_fields(self, job: int | str) -> dict[str, str]:
        """What `scontrol show job` says of a job, field by field, as root sees it; of an array its first task.

        Raises:
            PrivateSlurmError: slurmctld does not know it.
        """
        shown = self.must("root", ["scontrol", "show", "job", "--oneliner", str(job)])
        return dict(_FIELD.findall(shown.splitlines()[0]))

    def wait_for_state(self, job: int | str, states: Collection[str] | str, *, time_limit_s: float = 60.0) -> str:
        """Wait until the job is in one of these states (`RUNNING`, `FAILED`, …); gives the state.

        Raises:
            PrivateSlurmError: It was not in time; the text has what Slurm says of it.
        """
        wanted = {states} if isinstance(states, str) else set(states)
        end = time.monotonic() + time_limit_s
        while (fields := self.job_fields(job))["JobState"] not in wanted:
            if time.monotonic() > end:
                raise PrivateSlurmError(f"Job {job} was not {sorted(wanted)} within {time_limit_s:.0f} s: {fields}")
            time.sleep(LOOK_EVERY_S)
        return fields["JobState"]

    def node_state(self, node: str) -> str:
        """The state of a node in the words of `scontrol show node`: `IDLE`, `DOWN*`, `IDLE+DRAIN`.

        Raises:
            PrivateSlurmError: slurmctld does not know it, or does not answer.
        """
        states = node_states(self.layout, self.plan, (node,))
        if node not in states:
            raise PrivateSlurmError(f"Slurm says nothing of the node {node}:\n{self.logs('slurmctld')}")
        return states[node]

    def stop_node(self, node: str, *, and_its_jobs: bool = True) -> None:
        """Kill the slurmd of a node, and everything that runs there, as a loss of power does.

        slurmctld calls the node DOWN about `slurmd_timeout_s` later. With `and_its_jobs=False` the steps run on.
        """
        self._daemons.kill(node)
        if and_its_jobs:
            kill_jobs_on(Path(self.folder), node)

    def start_node(self, node: str, *, wait: bool = True) -> None:
        """Start a node's slurmd again, if it does not run; with `wait`, return when slurmctld hears from it.

        Raises:
            PrivateSlurmError: It did not come up.
        """
        if self._daemons.pid(node) is None:
            start_and_wait(self._daemons, node, self.ports)
        if wait:
            wait_until_answering(self.layout, self.plan, (node,))

    def stop_controller(self) -> None:
        """Kill slurmctld; jobs run on, every command fails. Disturbs everybody on this cluster."""
        self._daemons.kill("slurmctld")

    def start_controller(self) -> None:
        """Start slurmctld again, with its state, and wait until it answers.

        Raises:
            PrivateSlurmError: It did not come up.
        """
        if self._daemons.pid("slurmctld") is None:
            start_and_wait(self._daemons, "slurmctld", self.ports)
        self.must("root", ["scontrol", "ping"])

    def restart_controller(self) -> None:
        """End slurmctld in order, which saves its state, then start it again (about two seconds).

        As at every site, jobs and reasons of nodes survive; a partition that was made with `scontrol create` is gone,
        and its jobs with it: put partitions that shall survive into the plan.

        Raises:
            PrivateSlurmError: It did not come up.
        """
        self._daemons.end("slurmctld")
        self.start_controller()

    def stop_accounting(self) -> None:
        """End slurmdbd in order: `sacct` fails, jobs run on, slurmctld keeps the records until it is back."""
        self._daemons.end("slurmdbd")

    def start_accounting(self) -> None:
        """Start slurmdbd again and wait until it listens.

        Raises:
            PrivateSlurmError: It did not come up.
        """
        if self._daemons.pid("slurmdbd") is None:
            start_and_wait(self._daemons, "slurmdbd", self.ports)

    def kill_daemon(self, name: str) -> None:
        """Kill any one daemon by its name in `pids`, as a crash does; jobs and their steps run on."""
        self._daemons.kill(name)

    def start_daemon(self, name: str) -> None:
        """Start a daemon again, if it does not run, and wait until it can be spoken with.

        Raises:
            PrivateSlurmError: It did not come up.
        """
        start_again(self._daemons, name, self.ports)

    def logs(self, *daemons: str) -> str:
        """The ends of the daemons' logs, of all daemons by default, for the diagnosis of a failure."""
        names = daemons or tuple(sorted({path.stem for path in self.layout.logs.iterdir()}))
        logs = {name: self.layout.log(name) for name in names}
        return "\n".join(
            f"--- {name}\n{tail(log if log.exists() else self.layout.output(name), _LOG_LINES)}"
            for name, log in logs.items()
        )

    def stop(self) -> None:
        """Kill every process of the cluster, remove its folder, and its users unless others need them. May be repeated.

        Raises:
            PrivateSlurmError: Something could not be removed.
        """
        keeper_pid = self._daemons.pid(keeper.NAME)
        if keeper_pid is not None:
            _end_keeper(keeper_pid)
        if Path(self.folder).exists():
            keeper.remove_cluster(Path(self.folder))

    @property
    def _daemons(self) -> Daemons:
        return Daemons(self.layout, self.plan)


def start_cluster(plan: ClusterPlan, *, owner_pid: int | None = None) -> RunningCluster:
    """Start a private cluster and wait until all its nodes answer (about five seconds for six nodes).

    Args:
        plan: What it shall look like.
        owner_pid: The process with whose end the cluster is removed, however that comes; this one by default.

    Raises:
        PrivateSlurmError: It could not be started; nothing is left of it. The text says why and what helps.
    """
    with subprocess.Popen(
        [sys.executable, "-m", keeper.__package__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # an interrupt at the terminal ends the owner first, then the cluster
    ) as started:
        try:
            answer = _understand(_ask(started, {"plan": plan.to_json(), "owner": owner_pid or os.getpid()}))
        except BaseException:
            started.terminate()
            raise
        started.returncode = 0  # it outlives this object by design
    return RunningCluster(plan=plan, **answer)


def _ask(started: subprocess.Popen[str], asked: Mapping[str, Any]) -> str:
    """All that the keeper says, to the end of its output; it bounds the time itself."""
    if started.stdin is None or started.stdout is None:
        raise ValueError("the keeper needs pipes")
    with suppress(BrokenPipeError):
        json.dump(asked, started.stdin)
        started.stdin.close()
    return started.stdout.read()


def _understand(said: str) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(said)
    except ValueError:
        raise PrivateSlurmError(f"The keeper of the cluster failed: {said.strip()}") from None
    if "error" in answer:
        raise PrivateSlurmError(answer["error"])
    found: dict[str, Any] = answer["cluster"]
    return found


def _end_keeper(pid: int) -> None:
    """Tell a keeper to end and wait until it has removed its cluster."""
    with suppress(ProcessLookupError):
        ended = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(ended, signal.SIGTERM)
            select.select([ended], [], [], _STOP_LIMIT_S)
        finally:
            os.close(ended)
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
