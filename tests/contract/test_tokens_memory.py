from __future__ import annotations

import pytest

from relance.ports.tokens import TokenStore
from relance.testing.memory_tokens import MemoryTokens
from relance.testing.token_contract import TokenContract


class TestMemoryTokens(TokenContract):
    @pytest.fixture
    def tokens(self) -> TokenStore:
        return MemoryTokens()
