"""The tokens that a start writes to files of mode 0600, so that the CLI and the agents of this machine find them."""

from __future__ import annotations

import os
from pathlib import Path

from relance.ports.clocks import Clock
from relance.ports.tokens import Token, TokenRole, TokenStore
from relance.serving.identities import digest_of, new_secret

_OWNER_ONLY = 0o600


async def write_admin_token(path: Path, tokens: TokenStore, clock: Clock) -> str:
    """Make sure that the file holds an admin token that is in force, and give it. The token's name is `admin`."""
    return await write_token(path, Token(name="admin", role=TokenRole.ADMIN, digest="", created_at=clock.now()), tokens)


async def write_token(path: Path, wanted: Token, tokens: TokenStore) -> str:
    """Make sure that the file holds a token of this name and role that is in force, and give it.

    A token that the file already has is kept if the store knows it; otherwise a new one is stored and written, whole or
    not at all. Raises OSError when the file cannot be written.
    """
    kept = _read(path)
    known = await tokens.find_token(digest_of(kept)) if kept else None
    if kept and known is not None and known.role is wanted.role:
        _close(path)
        return kept
    secret = new_secret()
    await tokens.add_token(
        Token(name=wanted.name, role=wanted.role, digest=digest_of(secret), created_at=wanted.created_at)
    )
    _write(path, secret)
    return secret


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _close(path: Path) -> None:
    path.chmod(_OWNER_ONLY)


def _write(path: Path, secret: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _OWNER_ONLY)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"{secret}\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
