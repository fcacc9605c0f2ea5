"""Keep `requirements.lock` in step with the dependency tables of `pyproject.toml`.

`python scripts/lock.py` resolves again and keeps the versions that still fit; `--upgrade` takes the newest;
`--check` says whether the lock belongs to the tables, from a hash in its header and without the network.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "requirements.lock"
PYPROJECT: Final = ROOT / "pyproject.toml"
OLDEST_PYTHON: Final = "3.11"
STAMP: Final = re.compile(r"^# Resolved from dependency tables with sha256 ([0-9a-f]{64})$", re.MULTILINE)
HEADER: Final = """\
# The exact environment of Relance: what it needs to run, and its tools. Written by `make lock`, never by hand.
# Resolved from dependency tables with sha256 {digest}
"""


def tables_digest(pyproject: str) -> str:
    """The hash of everything in the text of a `pyproject.toml` that decides what is installed."""
    document = tomllib.loads(pyproject)
    project = document.get("project", {})
    deciding = [
        document.get("build-system", {}).get("requires", []),
        project.get("requires-python", ""),
        project.get("dependencies", []),
        project.get("optional-dependencies", {}),
        document.get("dependency-groups", {}),
    ]
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()


def lock_digest(lock: str) -> str | None:
    """The hash of the tables that the text of a lock was resolved from; None if it does not say."""
    stamp = STAMP.search(lock)
    return stamp[1] if stamp else None


def is_fresh(lock: str, pyproject: str) -> bool:
    """Whether the lock was resolved from these dependency tables."""
    return lock_digest(lock) == tables_digest(pyproject)


def resolve(*, upgrade: bool) -> str:
    """The pinned and hashed requirements of every supported platform and Python, as text without any address.

    Raises:
        subprocess.CalledProcessError: no set of versions fits, or the index cannot be reached.
    """
    command = [
        str(Path(sys.executable).with_name("uv")),
        *("pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON, "--generate-hashes"),
        *("--no-emit-index-url", "--no-header", "--group", "dev", "--output-file", str(LOCK), str(PYPROJECT)),
        *(["--upgrade"] if upgrade else []),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    return LOCK.read_text()


def main() -> int:
    """Write the lock, or check it; 1 when the check finds it out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the lock is up to date")
    parser.add_argument("--upgrade", action="store_true", help="take the newest version of everything")
    options = parser.parse_args()
    pyproject = PYPROJECT.read_text()
    if options.check:
        if LOCK.exists() and is_fresh(LOCK.read_text(), pyproject):
            return 0
        print("requirements.lock does not belong to pyproject.toml: run `make lock` and commit both")
        return 1
    requirements = resolve(upgrade=options.upgrade)
    LOCK.write_text(HEADER.format(digest=tables_digest(pyproject)) + requirements)
    return 0


if __name__ == "__main__":
    sys.exit(main())
