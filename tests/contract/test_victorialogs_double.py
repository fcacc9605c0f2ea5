"""The double of VictoriaLogs is held to what the real one was recorded to answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.components.victorialogs import VictoriaLogs, victorialogs_double

RECORDED = json.loads((Path(__file__).parent.parent / "recordings" / "victorialogs.json").read_text("utf-8"))
EXCHANGES = RECORDED["exchanges"]
Told = tuple[VictoriaLogs, dict[str, httpx2.Response]]
AFTER_NS = 600 * 1_000_000_000
"""The lines were recorded as of before: what bears no time has come after all that is asked about."""
IN_NO_ORDER = {"limit without sort"}
"""Which of several equally good lines come is not said either."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """A double that was given what the real one had been given before it was asked, with its answers to that."""
    with victorialogs_double(
        tmp_path_factory.mktemp("victorialogs"), "--began", str(RECORDED["t0_ns"] + AFTER_NS)
    ) as logs:
        inserts = [each for each in EXCHANGES if each["path"].startswith("/insert/")]
        yield logs, {each["name"]: replay(logs, each) for each in inserts}


def replay(logs: VictoriaLogs, exchange: dict[str, Any]) -> httpx2.Response:
    body = exchange["request_body"]
    return logs.ask(
        exchange["method"],
        exchange["path"],
        params=exchange["params"],
        headers=exchange["headers"],
        content=body.encode() if body is not None else None,
    )


def plain(answer: object) -> object:
    """An answer without what may differ: the names of streams, and the order of what bears the same time."""
    if isinstance(answer, str) and answer.startswith("{"):
        rows = [json.loads(line) for line in answer.splitlines()]
        return sorted(([*{**row, "_stream_id": ""}.items()] for row in rows), key=json.dumps)
    if isinstance(answer, dict) and "_msg" in answer:
        return plain(json.dumps(answer))
    if isinstance(answer, dict) and "data" in answer:
        data = answer["data"]
        return {**answer, "data": {**data, "result": sorted(data["result"], key=json.dumps)}}
    return answer


def times(answer: object) -> list[str]:
    rows = [json.loads(line) for line in answer.splitlines()] if isinstance(answer, str) else []
    return [row.get("_time", "") for row in rows]


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[each["name"] for each in EXCHANGES])
def test_the_double_answers_as_the_real_one_did(told: Told, exchange: dict[str, Any]) -> None:
    logs, before = told
    answer = before[exchange["name"]] if exchange["name"] in before else replay(logs, exchange)
    assert answer.status_code == exchange["status"]
    assert answer.headers["Content-Type"] == exchange["content_type"]
    expected = exchange["response"]
    given: Any = answer.text if isinstance(expected, str) else answer.json()
    if exchange["name"] in IN_NO_ORDER:
        assert sorted(times(given))[1:] == sorted(times(expected))[1:]
        return
    assert plain(given) == plain(expected)
    if "sort by (_time)" in str(exchange["params"]) and "fields step" not in str(exchange["params"]):
        assert times(given) == times(expected)
