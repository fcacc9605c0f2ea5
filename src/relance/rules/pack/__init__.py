"""The packaged rules: YAML files, data. Their text is handed to the loader by who wires the parts together."""

from __future__ import annotations

from importlib.resources import files


def read_texts() -> dict[str, str]:
    """The text of each packaged rule file, by its name, in the order of the names."""
    found = sorted(
        (each for each in files(__name__).iterdir() if each.name.endswith(".yaml")), key=lambda each: each.name
    )
    return {each.name: each.read_text(encoding="utf-8") for each in found}
