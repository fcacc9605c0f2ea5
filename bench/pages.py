"""Where the last results are kept: `docs/reference/measured/bench.json`, and a page made from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.machines import ROOT, commit, machine
from bench.measures import Result

FOLDER = ROOT / "docs" / "reference" / "measured"
_NAME = "bench"


def kept(results: list[Result], today: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Put results over those of earlier runs, and write data and page; gives the data.

    Each result keeps the machine and the commit that it was measured on. A quick one never replaces a full one.
    """
    path = folder / f"{_NAME}.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    where = {"date": today, "machine": machine(), "commit": commit()}
    for result in results:
        known = data.get(result.name)
        if result.is_quick and known is not None and not known["quick"]:
            continue
        data[result.name] = {**result.data, **where}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    (folder / f"{_NAME}.md").write_text("\n".join(_page(data)) + "\n", encoding="utf-8")
    return data


def _page(data: Mapping[str, Any]) -> Iterator[str]:
    yield "# Benchmarks"
    yield ""
    yield "Written by `make bench`; do not edit. Each bar is held against what was measured in the same run: a ratio of"
    yield "1 is just held. The figures as data, with 95th percentiles from 30 values up, are in `bench.json` beside"
    yield "this page."
    for name, found in data.items():
        yield ""
        yield f"## {name}: {found['measure']}"
        yield ""
        word = "Held" if found["held"] else "**Not held**"
        quick = ", shortened (`--quick`)" if found["quick"] else ""
        host, at = found["machine"], found["commit"]
        changed = " with changes" if at["changed"] else ""
        yield f"{word}{quick}. Measured on {found['date']}, commit {at['id']}{changed}, on {host['cores']} cores of"
        yield f"{host['cpu']}, Python {host['python']}, in {found['duration_s']:g} s."
        yield ""
        yield "| bar | measured | limit | ratio |"
        yield "| --- | --- | --- | --- |"
        for bar in found["bars"]:
            unit = f" {bar['unit']}" if bar["unit"] else ""
            value = "nothing" if bar["value"] is None else f"{bar['value']:g}{unit}"
            ratio = "" if bar["ratio"] is None else f"{bar['ratio']:.2f}"
            limit = f"at least {bar['least']:g}" if "least" in bar else f"at most {bar['most']:g}"
            yield f"| {bar['name']} | {value} | {limit}{unit} | {ratio} |"
        yield ""
        yield f"Conditions: {found['conditions']}."
        yield from _wrong(found["wrong"])


def _wrong(sentences: list[str]) -> Iterator[str]:
    if sentences:
        yield ""
        yield "Went wrong:"
        yield ""
        yield from (f"- {sentence}" for sentence in sentences)
