"""The script of a canary's jobs: it counts, saves, fails or ends as it is told, and goes on from its checkpoint."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from relance.bootstrap.canaries.trials import BUG, ENOUGH, FAULT, NODE, SCRIPT, Trial

LIMIT_S = 60


def run(folder: Path, last: int) -> subprocess.CompletedProcess[str]:
    """Run the job, its seconds made short."""
    script = folder / "job.sh"
    script.write_text(SCRIPT)
    quick = folder / "bin"
    quick.mkdir(exist_ok=True)
    (quick / "sleep").write_text("#!/bin/sh\n")
    (quick / "sleep").chmod(0o755)
    env = {**os.environ, "PATH": f"{quick}:{os.environ['PATH']}"}
    argv = ["/bin/sh", str(script), str(folder), str(last)]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_a_job_that_nothing_happens_to_ends_well_with_its_newest_step_saved(tmp_path: Path) -> None:
    done = run(tmp_path, 12)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "checkpoint").read_text() == "10\n"


def test_it_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    run(tmp_path, 7)
    assert "iteration        6/       9" in run(tmp_path, 9).stdout
    assert "iteration        5/" not in run(tmp_path, 9).stdout


@pytest.mark.parametrize("trial", [NODE, BUG], ids=lambda trial: trial.name)
def test_it_fails_once_with_the_lines_it_is_given(tmp_path: Path, trial: Trial) -> None:
    (tmp_path / FAULT).write_text(trial.lines)
    first, second = run(tmp_path, 5), run(tmp_path, 5)
    assert (first.returncode, first.stdout) == (1, trial.lines)
    assert second.returncode == 0


def test_it_ends_well_when_it_was_enough(tmp_path: Path) -> None:
    (tmp_path / ENOUGH).touch()
    done = run(tmp_path, 1000)
    assert (done.returncode, done.stdout) == (0, "")
