"""The double of Loki is held to what the real one was recorded to answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.components.loki import Loki, loki_double

RECORDED = json.loads((Path(__file__).parent.parent / "recordings" / "loki.json").read_text())
EXCHANGES = RECORDED["exchanges"]
AFTER_NS = 900 * 10**9
"""The exchanges were recorded so long after the base of the pushed lines: the answer to an old line tells."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loki]:
    folder = tmp_path_factory.mktemp("loki")
    with loki_double(folder, "--began", str(RECORDED["t0_ns"] + AFTER_NS)) as loki:
        pushed = replay(loki, EXCHANGES[0])
        assert pushed.status_code == 204
        yield loki


def replay(loki: Loki, exchange: dict[str, Any]) -> httpx2.Response:
    body = exchange["request_body"]
    return loki.ask(
        exchange["method"],
        exchange["path"],
        params=exchange["params"],
        headers=exchange["headers"],
        content=body.encode() if body is not None else None,
    )


def plain(document: object) -> object:
    """An answer without what may differ: statistics, the order of streams, series and label sets."""
    if isinstance(document, str):
        return re.sub(r"(oldest acceptable timestamp is: )\S+", r"\1…", document)
    if not isinstance(document, dict):
        return document
    data = document.get("data")
    if isinstance(data, dict):
        rest = {name: value for name, value in data.items() if name not in ("stats", "result")}
        return {**document, "data": {**rest, "result": sorted(data["result"], key=lambda each: json.dumps(key(each)))}}
    if isinstance(data, list):
        return {**document, "data": sorted(data, key=lambda each: json.dumps(each, sort_keys=True))}
    return document


def key(found: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((found.get("stream") or found.get("metric") or {}).items())


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each["name"].replace(" ", "-"))
def test_the_double_answers_as_the_real_one_did(told: Loki, exchange: dict[str, Any]) -> None:
    answer = replay(told, exchange)
    wanted = exchange["response"]
    got = answer.json() if isinstance(wanted, dict) else answer.text
    assert answer.status_code == exchange["status"]
    assert answer.headers.get("Content-Type") == exchange["content_type"]
    assert plain(got) == plain(wanted)
