from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.layers import ROOT


def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(ROOT / "docs"), str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "index.html").exists()
