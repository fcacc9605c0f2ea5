"""Tokens: who may do what. Only digests are stored; a secret is shown once, when it is made."""

from __future__ import annotations

from fastapi import APIRouter

from relance.api.access import Governor, Parts
from relance.api.schemas import NewToken, TokenOrder, TokenShown
from relance.ports.tokens import Token, TokenRole
from relance.recovery.commands import CommandRefusedError
from relance.recovery.subjects import NotKnownError
from relance.serving.identities import digest_of, new_secret

router = APIRouter(tags=["tokens"])


@router.get("/tokens")
async def list_tokens(_: Governor, parts: Parts) -> list[TokenShown]:
    """All tokens, oldest first."""
    return [
        TokenShown(name=token.name, role=token.role, created_at=token.created_at)
        for token in await parts.tokens.tokens()
    ]


@router.post("/tokens", status_code=201)
async def add_token(_: Governor, parts: Parts, body: TokenOrder) -> NewToken:
    """Make a token; the answer is the only place where its secret is shown."""
    secret = new_secret()
    await parts.tokens.add_token(
        Token(name=body.name, role=body.role, digest=digest_of(secret), created_at=parts.clock.now())
    )
    return NewToken(name=body.name, role=body.role, secret=secret)


@router.delete("/tokens/{name}")
async def drop_tokens(_: Governor, parts: Parts, name: str) -> dict[str, int]:
    """Revoke all tokens of a name. The last admin's stay, or nobody could give another."""
    tokens = await parts.tokens.tokens()
    if not any(token.name == name for token in tokens):
        raise NotKnownError(f"no token has the name {name!r}")
    if not any(token.role is TokenRole.ADMIN and token.name != name for token in tokens):
        raise CommandRefusedError(f"{name} is the last admin")
    return {"dropped": await parts.tokens.drop_token(name)}
