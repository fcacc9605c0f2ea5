"""`MemoryTokens`: tokens kept in memory, for tests."""

from __future__ import annotations

from relance.ports.tokens import Token


class MemoryTokens:
    """Implements `relance.ports.tokens.TokenStore`."""

    def __init__(self) -> None:
        self._tokens: list[Token] = []

    async def add_token(self, token: Token) -> None:
        self._tokens = [each for each in self._tokens if each.digest != token.digest] + [token]

    async def find_token(self, digest: str) -> Token | None:
        return next((each for each in self._tokens if each.digest == digest), None)

    async def tokens(self) -> tuple[Token, ...]:
        return tuple(sorted(self._tokens, key=lambda each: (each.created_at, each.digest)))

    async def drop_token(self, name: str) -> int:
        kept = [each for each in self._tokens if each.name != name]
        dropped = len(self._tokens) - len(kept)
        self._tokens = kept
        return dropped
