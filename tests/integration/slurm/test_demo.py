"""The demonstration on a private Slurm cluster, as a newcomer runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from relance.cli.demos.grounds import OWNER
from tests.components.slurm import require_slurm

pytestmark = pytest.mark.timeout(300)
MOST_S = 280


def demo(*options: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON object, and what was told meanwhile."""
    argv = [sys.executable, "-m", "relance", "demo", "--slurm", "--json", *options]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=MOST_S)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def leftovers() -> list[Path]:
    """The demonstration's folders in the clusters of this machine, wherever a cluster may lie."""
    places = (Path("/dev/shm"), Path(gettempdir()))
    return [folder for place in places for folder in place.glob(f"relance-slurm-*/work/{OWNER}/demo")]


def check(result: dict[str, Any], names: Sequence[str]) -> None:
    """Every fault came out as it should, on Slurm."""
    assert result["ok"]
    assert result["cluster"] == "slurm"
    assert list(result["faults"]) == list(names)


def test_a_killed_rank_comes_back_on_a_real_slurm_cluster() -> None:
    require_slurm()
    code, result, told = demo("--fault", "kill")
    assert code == 0, told
    check(result, ["kill"])
    assert result["faults"]["kill"]["attempts"] == 2
    assert leftovers() == []


def test_a_folder_that_is_closed_to_others_is_refused_with_what_to_do(tmp_path: Path) -> None:
    require_slurm()
    tmp_path.parent.chmod(0o700)
    code, _, told = demo("--fault", "kill", "--folder", str(tmp_path))
    assert code == 1
    assert "choose another --folder" in told


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_all_six_faults_come_out_right_on_a_real_slurm_cluster() -> None:
    require_slurm()
    code, result, told = demo()
    assert code == 0, told
    check(result, ["kill", "hang", "node", "bug", "scare"])
