from __future__ import annotations

import re

from scripts.lock import HEADER, LOCK, PYPROJECT, is_fresh, lock_digest, tables_digest

TABLES = """
[build-system]
requires = ["hatchling"]
[project]
requires-python = ">=3.11"
dependencies = ["click>=8"]
[dependency-groups]
dev = ["pytest"]
[tool.ruff]
line-length = 120
"""


def test_the_committed_lock_belongs_to_the_committed_tables() -> None:
    assert is_fresh(LOCK.read_text(), PYPROJECT.read_text()), "run `make lock` and commit both files"


def test_a_lock_goes_stale_with_a_new_dependency_of_any_kind() -> None:
    lock = HEADER.format(digest=tables_digest(TABLES))
    assert is_fresh(lock, TABLES)
    for old, new in [("click>=8", "click>=9"), ("pytest", "ruff"), ("hatchling", "flit"), (">=3.11", ">=3.12")]:
        assert not is_fresh(lock, TABLES.replace(old, new))


def test_a_lock_stays_fresh_when_only_a_tool_is_configured() -> None:
    lock = HEADER.format(digest=tables_digest(TABLES))
    assert is_fresh(lock, TABLES.replace("line-length = 120", "line-length = 100"))


def test_a_lock_without_its_stamp_is_stale() -> None:
    assert lock_digest("click==8.5.1\n") is None
    assert not is_fresh("click==8.5.1\n", TABLES)


def test_every_line_of_the_lock_is_pinned_and_hashed_and_names_no_address() -> None:
    lock = LOCK.read_text()
    requirements = re.findall(r"^([a-z0-9][^ \n]*)(.*(?:\n    --hash=.*)*)", lock, re.MULTILINE)
    assert len(requirements) > 50
    assert [name for name, rest in requirements if "==" not in name or "--hash=sha256:" not in rest] == []
    assert "://" not in lock
