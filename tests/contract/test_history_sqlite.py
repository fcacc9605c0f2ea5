from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relance.ports.clocks import SystemClock
from relance.storage.histories import SqlHistory
from relance.testing.appending import OpenHistory
from relance.testing.history_contract import HistoryContract


class TestSqliteHistory(HistoryContract):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'relance.db'}"

    @pytest.fixture
    async def open_history(self, url: str) -> AsyncIterator[OpenHistory]:
        opened: list[SqlHistory] = []

        async def open_one() -> SqlHistory:
            opened.append(await SqlHistory.open(url, clock=SystemClock()))
            return opened[-1]

        yield open_one
        for history in opened:
            await history.close()
