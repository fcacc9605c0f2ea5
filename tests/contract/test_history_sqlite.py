from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.sql_histories import SqlHistoryContract


class TestSqliteHistory(SqlHistoryContract):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'relance.db'}"
