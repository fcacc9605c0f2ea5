"""What the acceptance tests stand on: Relance as real processes of its own user beside a real Slurm, and a witness.

What the fixture cannot show, of the operators' conditions: no network file system and no 0700 homes on one; no GPUs, so
a GPU's fault is a rank that dies and the lines that the driver would write into the kernel log; one machine, so no real
loss of power; minutes in place of hours, where a limit is a setting (each test names those that it shortens).
"""

from __future__ import annotations

import contextlib
import re
import secrets
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_string
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from bench.rigs import folder
from bench.sites import until
from bench.slurm_sites import SlurmSetup, SlurmSite
from relance.cli.main import main
from relance.recovery.rows import HistoryRow
from relance.simulation.private_slurm import RunningCluster

__all__ = [
    "LIMIT_S",
    "Witness",
    "command",
    "decides_nothing",
    "happened",
    "relance_on",
    "steps_of",
    "told",
    "until",
    "witness",
]

LIMIT_S: Final = 150.0
"""A busy machine is slow, not wrong."""
_LOOK_EVERY_S: Final = 0.2
_TAIL: Final = 6000
_ACTS: Final = frozenset({"ActionStarted", "ActionSucceeded", "ActionFailed", "ActionUnknown"})
_STEP: Final = re.compile(r"\[([0-9-]+ [0-9:.]+)\] iteration +(\d+)/")
_RUNS: Final = frozenset({"RUNNING", "COMPLETING", "SUSPENDED"})


@contextlib.contextmanager
def relance_on(
    cluster: RunningCluster, setup: SlurmSetup, *, partition: str = "", owner: str = ""
) -> Iterator[SlurmSite]:
    """Relance beside a cluster that runs, and trainings of an owner; when the test fails, what it wrote is shown."""
    with folder() as place:
        place.chmod(0o755)  # Relance's own user has its folder below it
        made = SlurmSite(cluster, place / f"s{secrets.token_hex(4)}", setup, partition=partition, owner=owner)
        try:
            made.start()
            yield made
        except BaseException:
            _show(made)
            raise
        finally:
            made.stop()


def command(site: SlurmSite, *words: str) -> str:
    """What a command of Relance prints for the operator."""
    server = site.relance.server
    options = ["--server", server.url, "--token-file", str(site.relance.token_file)]
    done = CliRunner().invoke(main, [*words, *options], env={"COLUMNS": "400"})
    assert done.exit_code == 0, done.output
    return done.output


def told(site: SlurmSite, job: int) -> str:
    """`relance why JOB`."""
    return command(site, "why", str(job))


def happened(site: SlurmSite, job: int) -> tuple[HistoryRow, ...]:
    """All that the history has of a job."""
    return site.client.job_history(str(job)) if site.story(job) is not None else ()


def decides_nothing(site: SlurmSite, job: int) -> list[str]:
    """How Relance did more to a job than look at it: an action, or a node kept out; empty when it did not."""
    wrong = [f"{row.event}: {row.title}" for row in happened(site, job) if row.event in _ACTS]
    return wrong + [f"kept out: {', '.join(item.excluded)}" for item in site.incidents(job) if item.excluded]


def steps_of(output: str) -> list[tuple[datetime, int]]:
    """The steps in a training's output, with the times of their lines."""
    return [(datetime.fromisoformat(at).astimezone(UTC), int(step)) for at, step in _STEP.findall(output)]


def _show(site: SlurmSite) -> None:
    for log in sorted(site.relance.folder.glob("*.log")):
        sys.stdout.write(f"--- {log.name}\n{log.read_text(encoding='utf-8', errors='replace')[-_TAIL:]}\n")
    with contextlib.suppress(Exception):  # the server may be what failed
        for row in reversed(site.client.history(limit=80)):
            sys.stdout.write(f"{row.at:%H:%M:%S} {row.stream} {row.event}: {row.title} | {row.detail}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Postbox:
    """A command that keeps whatever it gets in a folder that every user may write to.

    Attributes:
        command: The command.
        folder: Where it keeps things.
    """

    command: Path
    folder: Path

    @property
    def letters(self) -> tuple[str, ...]:
        """What it got, mails decoded, oldest first."""
        found = sorted(self.folder.glob("letter-*"), key=lambda path: path.stat().st_mtime_ns)
        return tuple(_plain(path.read_text(encoding="utf-8")) for path in found)


def postbox(folder: Path) -> Postbox:
    """A postbox in a new folder."""
    made = Postbox(command=folder / "keep", folder=folder / "letters")
    made.folder.mkdir(parents=True)
    made.folder.chmod(0o777)
    script = f'#!/bin/sh\nnew=$(mktemp {made.folder}/.new-XXXXXX)\ncat >"$new"\nmv "$new" {made.folder}/letter-$$\n'
    made.command.write_text(script, encoding="utf-8")
    made.command.chmod(0o755)
    return made


def _plain(letter: str) -> str:
    """A mail with its headers and its text decoded; anything else as it is."""
    mail = message_from_string(letter)
    text = mail.get_payload(decode=True)
    if not mail["Subject"] or not isinstance(text, bytes):
        return letter
    return f"To: {mail['To']}\nSubject: {mail['Subject']}\n\n{text.decode()}"


@dataclass(slots=True)
class Witness:
    """Looks at the queue five times in a second, and notes who ran at once.

    Attributes:
        looks: How often it has looked.
        seen: The ids that were seen to run, by user and name.
        together: For each user and name under which two jobs ran at one moment, what was seen.
    """

    cluster: RunningCluster
    looks: int = 0
    seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    together: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Look until `stop`."""
        while not self._over.wait(_LOOK_EVERY_S):
            shown = self.cluster.run_as("root", ["squeue", "--noheader", "--states=all", "--format=%i|%T|%u %j"])
            if shown.returncode == 0:
                self._note(shown.stdout.splitlines())

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    def _note(self, lines: Sequence[str]) -> None:
        self.looks += 1
        running: dict[str, list[str]] = defaultdict(list)
        for line in lines:
            job, state, who = line.split("|", 2)
            if state in _RUNS:
                running[who].append(f"{job} {state}")
                self.seen[who].add(job)
        self.together += [f"{who}: {jobs}" for who, jobs in running.items() if len(jobs) > 1]


@contextlib.contextmanager
def witness(cluster: RunningCluster) -> Iterator[Witness]:
    """A witness at work."""
    made = Witness(cluster)
    thread = threading.Thread(target=made.watch, name="witness", daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join()
