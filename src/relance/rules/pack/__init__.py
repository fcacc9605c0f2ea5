"""The packaged rules: YAML files, data. Their text is handed to the loader by who wires the parts together."""

from __future__ import annotations

from pathlib import Path


def read_texts() -> dict[str, str]:
    """The text of each packaged rule file, by its name, in the order of the names."""
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(Path(__file__).parent.glob("*.yaml"))}


def loader_version() -> str:
    """What tells one way of reading rule files from another: the text of the code that does it."""
    rules = Path(__file__).parent.parent
    return "".join((rules / name).read_text(encoding="utf-8") for name in ("loading.py", "entries.py", "patterns.py"))
