"""Tokens of Slurm's (auth/jwt): read from their file, and how long they are good for, as they say themselves.

Nothing is verified: Slurm does that. What is read here serves to say in time that a new one is needed.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
from dataclasses import dataclass
from typing import Any

from relance.slurm.errors import SlurmError

_MOST_BYTES = 16 << 10
_SHAPE = re.compile(r"[A-Za-z0-9._~+/=-]{8,16384}\Z", re.ASCII)
_PARTS = 3
_SHORT_SHARE = 0.1
_SHORT_S = 3600.0
_LARGEST_TIME = 1 << 40


class TokenError(SlurmError):
    """There is no token that can be used: missing, open to others, or not of the form of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, and since when and until when it is good, in seconds since 1970; None: it does not say."""

    text: str
    issued_s: float | None = None
    expires_s: float | None = None

    def __repr__(self) -> str:
        """Without the token itself, which belongs into no log."""
        return f"Token(issued_s={self.issued_s}, expires_s={self.expires_s})"

    def left_s(self, now_s: float) -> float | None:
        """How long it is still good for; None: it does not say."""
        return self.expires_s - now_s if self.expires_s is not None else None

    def is_short(self, now_s: float) -> bool:
        """Whether less than a tenth of its life, or less than an hour, is left.

        One that lives for less than two hours is short only in the last half of its life: it is renewed often.
        """
        if self.expires_s is None:
            return False
        margin_s = _SHORT_S
        if self.issued_s is not None and self.issued_s < self.expires_s:
            life_s = self.expires_s - self.issued_s
            margin_s = min(max(_SHORT_SHARE * life_s, _SHORT_S), life_s / 2)
        return self.expires_s - now_s < margin_s


def read_token(path: str) -> Token:
    """The token in a file that only its owner may read. Raises TokenError, with what mends it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise TokenError(f"The token for Slurm cannot be read: {path}: {error.strerror}.") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise TokenError(f"The token for Slurm cannot be read: {path} is not a regular file.")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise TokenError(f"The token for Slurm can be read by others: chmod 600 {path}.")
        text = os.read(descriptor, _MOST_BYTES + 1).decode("ascii", "replace").strip()
    except OSError as error:
        raise TokenError(f"The token for Slurm cannot be read: {path}: {error.strerror}.") from error
    finally:
        os.close(descriptor)
    text = text.removeprefix("SLURM_JWT=")  # as `scontrol token` prints it
    if _SHAPE.match(text) is None:
        raise TokenError(f"{path} does not hold one token: write it with `scontrol token lifespan=…`.")
    claims = _claims(text)
    return Token(text=text, issued_s=_time(claims.get("iat")), expires_s=_time(claims.get("exp")))


def _claims(text: str) -> dict[str, Any]:
    """What a token says of itself; nothing of one of another form."""
    parts = text.split(".")
    if len(parts) != _PARTS:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _time(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < _LARGEST_TIME else None  # type: ignore[operator, arg-type]
