"""Real components: found, or the test is skipped with name and reason; where CI=true a missing one is a failure."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final, NoReturn

import pytest

SERVERS_TOO: Final = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
"""Debian puts servers into folders that are not on everybody's PATH."""


def require_component(name: str, reason: str, *, program: str, path: str = SERVERS_TOO) -> Path:
    """The path of a component's program, for a test that cannot do without it.

    It is looked up in the folders of `path`. `reason` completes "needed for …". Where the program is missing, the test
    is skipped with name and reason, so that the last screen shows it; with CI=true it fails, because nobody reads a
    skip there.
    """
    found = shutil.which(program, path=path)
    if found is None:
        missing_component(name, reason)
    return Path(found)


def missing_component(name: str, reason: str) -> NoReturn:
    """Skip the running test, or fail it where CI=true, because a component cannot be had."""
    message = f"{name} is not on this machine; it is needed for {reason}; `scripts/components` tells how to have it"
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
