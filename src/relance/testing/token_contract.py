"""The contract of `relance.ports.tokens.TokenStore`, as tests that every implementation runs.

A test class of one's own inherits from `TokenContract` and has a fixture `tokens` that gives a new, empty store.
"""

from __future__ import annotations

from relance.ports.tokens import Token, TokenRole, TokenStore
from relance.testing.history_values import after


def token(number: int, name: str = "ada", role: TokenRole = TokenRole.VIEWER) -> Token:
    """A token of somebody."""
    return Token(name=name, role=role, digest=f"{number:064x}", created_at=after(-number))


class TokenContract:
    """Everything that a store of tokens promises."""

    async def test_a_token_is_found_by_its_digest_alone(self, tokens: TokenStore) -> None:
        await tokens.add_token(token(1, role=TokenRole.ADMIN))
        assert await tokens.find_token(token(1).digest) == token(1, role=TokenRole.ADMIN)
        assert await tokens.find_token(token(2).digest) is None
        assert await tokens.find_token("ada") is None
        assert await tokens.find_token("") is None

    async def test_tokens_come_oldest_first(self, tokens: TokenStore) -> None:
        stored = [token(number, name) for number, name in ((1, "ada"), (3, "ada"), (2, "Bob ü"))]
        for each in stored:
            await tokens.add_token(each)
        assert await tokens.tokens() == (stored[1], stored[2], stored[0])

    async def test_a_name_is_revoked_with_all_its_tokens(self, tokens: TokenStore) -> None:
        for number, name in ((1, "ada"), (2, "ada"), (3, "Ada"), (4, "ada ")):
            await tokens.add_token(token(number, name))
        assert await tokens.drop_token("ada") == 2
        assert await tokens.drop_token("ada") == 0
        assert [each.name for each in await tokens.tokens()] == ["ada ", "Ada"]
        assert await tokens.find_token(token(1).digest) is None

    async def test_the_same_digest_again_replaces_the_token(self, tokens: TokenStore) -> None:
        await tokens.add_token(token(1))
        await tokens.add_token(token(1, "bob", TokenRole.OPERATOR))
        assert await tokens.tokens() == (token(1, "bob", TokenRole.OPERATOR),)
