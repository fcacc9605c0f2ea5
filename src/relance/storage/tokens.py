"""API tokens in the same database as the history. Only digests are stored."""

from __future__ import annotations

from relance.ports.tokens import Token
from relance.storage.columns import column_key, from_payload, to_payload, to_us
from relance.storage.databases import Database
from relance.storage.tables import tokens
from relance.storage.upserts import put


class SqlTokens:
    """Implements `relance.ports.tokens.TokenStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_token(self, token: Token) -> None:
        row = {
            "digest": token.digest,
            "name_key": column_key(token.name),
            "created_at_us": to_us(token.created_at),
            "token": to_payload(token),
        }
        await self._database.write(lambda connection: put(connection, tokens, row))

    async def find_token(self, digest: str) -> Token | None:
        query = tokens.select().where(tokens.c.digest == digest)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else from_payload(Token, row.token)

    async def tokens(self) -> tuple[Token, ...]:
        query = tokens.select().order_by(tokens.c.created_at_us, tokens.c.digest)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return tuple(from_payload(Token, row.token) for row in rows)

    async def drop_token(self, name: str) -> int:
        query = tokens.delete().where(tokens.c.name_key == column_key(name))
        return await self._database.write(lambda connection: connection.execute(query).rowcount)
