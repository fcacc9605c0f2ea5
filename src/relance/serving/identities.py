"""Who asks, and what they may do: bearer tokens, and sessions of the console that stand on a token.

A secret is 256 random bits, so its plain SHA-256 is all that is stored and all that a session refers to. A session is a
signed cookie; it lives as long as its token does, at most for the session's time, and needs no table of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import Enum

from relance.ports.clocks import Clock
from relance.ports.tokens import Token, TokenRole, TokenStore

SESSION_COOKIE = "relance_session"
_COOKIE_PARTS = 3
"""When it ends, its nonce, its token's digest; the mark over them comes behind."""


class Right(Enum):
    """What a request needs."""

    READ = "read"
    """See jobs, incidents, nodes, history."""
    DECIDE = "decide"
    """Approve, deny, switch jobs, say that a verdict is wrong, end a storm, lower a stage."""
    GOVERN = "govern"
    """Raise stages, consent to ending running attempts, give and revoke tokens."""
    REPORT = "report"
    """The agents' calls."""


_RIGHTS = {
    TokenRole.ADMIN: frozenset(Right),
    TokenRole.OPERATOR: frozenset({Right.READ, Right.DECIDE}),
    TokenRole.VIEWER: frozenset({Right.READ}),
    TokenRole.AGENT: frozenset({Right.REPORT}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who asks. `nonce` is set for a session of the console and ties its forms to it."""

    name: str
    role: TokenRole
    nonce: str = ""

    def may(self, right: Right) -> bool:
        """Whether the role has this right."""
        return right in _RIGHTS[self.role]

    @property
    def by_session(self) -> bool:
        """Whether a browser's cookie, which it sends by itself, speaks for this person."""
        return bool(self.nonce)


def digest_of(secret: str) -> str:
    """What is stored of a secret: its SHA-256, in hex."""
    return hashlib.sha256(_bytes(secret)).hexdigest()


def new_secret() -> str:
    """A new secret of 256 random bits, as text that is safe in a header and recognisable in a leak."""
    return f"relance_{secrets.token_urlsafe(32)}"


class Identities:
    """Tells who asks."""

    def __init__(self, tokens: TokenStore, clock: Clock, key: bytes, session_s: float) -> None:
        """`key` signs sessions and forms; sessions last `session_s` seconds."""
        self._tokens = tokens
        self._clock = clock
        self._key = key
        self._session_s = session_s

    async def of_bearer(self, secret: str) -> Identity | None:
        """The bearer of a token."""
        token = await self._token(digest_of(secret))
        return Identity(name=token.name, role=token.role) if token else None

    async def of_session(self, cookie: str) -> Identity | None:
        """The person whose session a cookie holds, while it lasts and its token is not revoked."""
        head, _, mark = cookie.rpartition(".")
        parts = head.split(".")
        if len(parts) != _COOKIE_PARTS or not _same(mark, self._mark("session", head)):
            return None
        ends_at, nonce, digest = parts
        if self._clock.now().timestamp() >= int(ends_at):
            return None
        token = await self._token(digest)
        return Identity(name=token.name, role=token.role, nonce=nonce) if token else None

    async def begin_session(self, secret: str) -> tuple[str, Identity] | None:
        """A new session for the bearer of a token: its cookie, and who it is. None for an unknown token."""
        digest = digest_of(secret)
        token = await self._token(digest)
        if token is None:
            return None
        ends_at = int(self._clock.now().timestamp() + self._session_s)
        nonce = secrets.token_urlsafe(18)
        head = f"{ends_at}.{nonce}.{digest}"
        return f"{head}.{self._mark('session', head)}", Identity(name=token.name, role=token.role, nonce=nonce)

    def form_mark(self, identity: Identity) -> str:
        """What a form of this session carries, so that no other site can send it."""
        return self._mark("form", identity.nonce)

    def form_is_ours(self, identity: Identity, mark: str) -> bool:
        """Whether a form was made for this session."""
        return identity.by_session and _same(mark, self.form_mark(identity))

    async def _token(self, digest: str) -> Token | None:
        token = await self._tokens.find_token(digest)
        return token if token is not None and _same(token.digest, digest) else None

    def _mark(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, _bytes(f"{purpose}:{text}"), hashlib.sha256).hexdigest()


def _same(one: str, other: str) -> bool:
    """Whether two texts are the same, in a time that does not tell how alike they are; whatever was sent to us."""
    return hmac.compare_digest(_bytes(one), _bytes(other))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
