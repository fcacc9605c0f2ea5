"""Whether somebody is at work in a job, as far as its steps and its command tell. Pure.

Told is what can be known from outside: a step that Slurm calls interactive, that somebody else started, that is a
debugger, that is a shell on some of the job's nodes, or that began long after another one which it runs beside; and a
job whose script only waits or serves a notebook. Shells on all nodes are how many scripts start their training, and
monitors run in steps of their own: neither tells of anybody. A process that was stopped or is traced on a node cannot
be seen from here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from relance.domain.collecting import EVIDENCE_STEP
from relance.slurm.records import SlurmJob, SlurmStep

_SHELL = re.compile(r"(ba|da|z|k|fi|tc|c)?sh\Z")
_DEBUGGERS = frozenset({"cuda-gdb", "gdb", "lldb", "ltrace", "pdb", "py-spy", "rocgdb", "strace"})
_NOTEBOOKS = re.compile(
    r"\b(jupyter|jupyterlab|jupyterhub|ipython|code-server|rstudio|vscode|notebook)\b", re.IGNORECASE
)
_LATE_S = 60
"""A step that begins so long after a training step, while that runs on, was not started by the same script line."""


def somebody_at_work(job: SlurmJob, steps: Sequence[SlurmStep] | None) -> str | None:
    """Words that say who is at work in the job; None when nothing tells of anybody.

    `steps` are the job's steps that live now; None or none of them: only what the job itself shows is looked at.
    """
    return _at_a_notebook(job) or _at_a_step(job, steps or ())


def _at_a_notebook(job: SlurmJob) -> str | None:
    if found := _NOTEBOOKS.search(f"{job.name} {job.command or ''}"):
        return f"it serves {found[0]}, where its owner works"
    words = _words(job.command)
    if words[:1] == ["sleep"] or _NAMED_SLEEP.search(job.name):
        return "its script only sleeps: somebody keeps the nodes for work by hand"
    return None


def _at_a_step(job: SlurmJob, steps: Sequence[SlurmStep]) -> str | None:
    own = [step for step in steps if not step.is_slurms_own and step.state != "PENDING" and step.name != EVIDENCE_STEP]
    for step in own:
        name = PurePosixPath(step.name).name
        if step.user and job.user and step.user != job.user:
            return f"step {step.step_id} ({step.name}) was started by {step.user}"
        if step.step_id == "interactive":
            return f"{step.user} has an interactive step"
        if name in _DEBUGGERS:
            return f"step {step.step_id} of {step.user} is {name}"
        if _SHELL.match(name) and len(step.nodes) < len(job.nodes):
            return f"step {step.step_id} of {step.user} is a shell on {', '.join(step.nodes[:3])}"
    return _later(own)


def _later(own: Sequence[SlurmStep]) -> str | None:
    """A step beside one that began long before it and uses some of the same nodes: `srun --overlap`."""
    ordered = sorted((step for step in own if step.started_at is not None), key=lambda step: step.started_at or 0)
    for index, step in enumerate(ordered):
        for before in ordered[:index]:
            late = (step.started_at or 0) - (before.started_at or 0) >= _LATE_S
            if late and set(step.nodes) & set(before.nodes) and step.name != before.name:
                return f"step {step.step_id} ({step.name}) of {step.user} runs beside step {before.step_id}"
    return None


_NAMED_SLEEP = re.compile(r"^sleep(\s|$)")


def _words(command: str | None) -> list[str]:
    try:
        return shlex.split(command or "")
    except ValueError:
        return (command or "").split()
