from __future__ import annotations

import pytest

from relance.ports.histories import History
from relance.testing.appending import OpenHistory
from relance.testing.history_contract import HistoryContract
from relance.testing.memory_histories import MemoryHistory


class TestMemoryHistory(HistoryContract):
    @pytest.fixture
    def open_history(self) -> OpenHistory:
        history = MemoryHistory()

        async def open_one() -> History:
            return history

        return open_one
