from __future__ import annotations

import pytest

from tests.contract.sql_histories import SqlHistoryContract


class TestMariadbHistory(SqlHistoryContract):
    @pytest.fixture
    def url(self, mariadb_url: str) -> str:
        return mariadb_url
