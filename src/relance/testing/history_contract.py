"""The contract of `relance.ports.histories.History`, as tests that every implementation runs.

A test class of one's own inherits from `HistoryContract` and has a fixture `open_history`: an asynchronous function
without parameters. The first call in a test opens a new, empty history; each further call opens the same one again, as
another process would. The fixture closes what it opened. A lease may be taken over 10 s after it ran out. Tests are
coroutines: pytest-asyncio in automatic mode, or a plug-in like it.

    class TestMyHistory(HistoryContract):
        @pytest.fixture
        async def open_history(self, tmp_path):
            async def open_one():
                return await MyHistory.open(tmp_path / "history")

            yield open_one
"""

from __future__ import annotations

from relance.testing.history_contract_limits import LimitContract
from relance.testing.history_contract_questions import QuestionContract
from relance.testing.history_contract_rows import RowContract
from relance.testing.history_contract_streams import StreamContract
from relance.testing.history_contract_writers import WriterContract


class HistoryContract(StreamContract, WriterContract, LimitContract, RowContract, QuestionContract):
    """Everything that a history promises."""
