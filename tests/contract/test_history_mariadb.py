from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relance.ports.clocks import SystemClock
from relance.storage.histories import SqlHistory
from relance.testing.appending import OpenHistory
from relance.testing.history_contract import HistoryContract


class TestMariadbHistory(HistoryContract):
    @pytest.fixture
    def url(self, mariadb_url: str) -> str:
        return mariadb_url

    @pytest.fixture
    async def open_history(self, url: str) -> AsyncIterator[OpenHistory]:
        opened: list[SqlHistory] = []

        async def open_one() -> SqlHistory:
            opened.append(await SqlHistory.open(url, clock=SystemClock()))
            return opened[-1]

        yield open_one
        for history in opened:
            await history.close()
