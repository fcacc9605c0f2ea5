"""The port to API tokens. A token carries a person's (or an agent's) name; only its digest is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol


class TokenRole(Enum):
    """What the bearer may do."""

    ADMIN = "admin"
    """Everything, stages and tokens included."""
    OPERATOR = "operator"
    """Read all, approve, deny, switch jobs."""
    VIEWER = "viewer"
    """Read all."""
    AGENT = "agent"
    """The agents' calls only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as stored. `digest` is the SHA-256 of the secret, in hex."""

    name: str
    role: TokenRole
    digest: str
    created_at: datetime


class TokenStore(Protocol):
    """Where tokens are kept."""

    async def add_token(self, token: Token) -> None:
        """Store a token; a name may have several."""
        ...

    async def find_token(self, digest: str) -> Token | None:
        """The token with this digest."""
        ...

    async def tokens(self) -> tuple[Token, ...]:
        """All tokens, oldest first."""
        ...

    async def drop_token(self, name: str) -> int:
        """Revoke all tokens of a name; gives how many."""
        ...
