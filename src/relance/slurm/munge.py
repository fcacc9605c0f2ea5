"""Who asks, proven by munge, the authentication that a Slurm cluster has on all its machines.

A credential is made on the asker's machine by that machine's munged, which writes the uid of the process that asked
into it; the server's munged decodes it, and refuses one that was changed, decoded before, expired, or made in the
future. It says who, not what for: so its payload names one request, and is good for no other.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import subprocess
from dataclasses import dataclass

from relance.slurm.errors import SlurmError

SCHEME = "Munge"
"""The word before a credential in the header `Authorization`."""
SOCKET_VARIABLE = "RELANCE_MUNGE_SOCKET"
"""Names munged's socket in the environment of whoever asks; unset: where munge itself looks."""
TTL_S = 60
"""A credential is good for this long: enough for clocks that differ a little, and little for a thief."""
_MOST_CHARS = 4096
_SHAPE = re.compile(r"MUNGE:[A-Za-z0-9+/=]{16,}:")
_VERSION = "relance-request/1"
_EXPIRED, _REWOUND, _REPLAYED, _NO_MUNGED = 15, 16, 17, 6  # exit codes of unmunge: libmunge's error numbers
_REFUSALS = {
    _EXPIRED: "the munge credential has expired: ask again; if that does not help, the clocks differ too much",
    _REWOUND: "the munge credential is from the future: the clocks differ too much",
    _REPLAYED: "the munge credential was used before: ask again",
}


class MungeError(SlurmError):
    """munge or munged is not at hand or did not answer; `remedy` says what a person can do."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class CredentialError(SlurmError):
    """The credential proves nothing: broken, old, used before, or made for something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Munge:
    """How munge is run: commands (argument lists), munged's socket (empty: the default), seconds until given up."""

    encode: tuple[str, ...] = ("munge",)
    decode: tuple[str, ...] = ("unmunge",)
    socket: str = ""
    time_limit_s: float = 5.0

    @property
    def options(self) -> tuple[str, ...]:
        """The options that name the socket."""
        return (f"--socket={self.socket}",) if self.socket else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One HTTP request as a credential names it: `target` is path and query as sent, `host` the header Host."""

    method: str
    target: str
    host: str
    body: bytes = b""

    def statement(self, nonce: str) -> str:
        """The payload: everything that may not be changed on the way, a line each."""
        digest = hashlib.sha256(self.body).hexdigest()
        return f"{_VERSION}\n{self.method}\n{self.target}\n{self.host.lower()}\n{digest}\n{nonce}"


def credential(asked: Asked, munge: Munge) -> str:
    """A credential for one request. Raises MungeError."""
    argv = (*munge.encode, *munge.options, f"--ttl={TTL_S}")
    ended = _run(argv, asked.statement(secrets.token_hex(16)), munge)
    text = ended.stdout.strip()
    if ended.returncode or not _SHAPE.fullmatch(text):
        raise _away(ended)
    return text


def uid_of(text: str, asked: Asked, munge: Munge) -> int:
    """The uid of whoever made a credential for exactly this request.

    Decoding uses the credential up. Raises CredentialError, and MungeError where munged cannot be asked.
    """
    if len(text) > _MOST_CHARS or not _SHAPE.fullmatch(text):
        raise CredentialError("that is not a munge credential")
    ended = _run((*munge.decode, *munge.options, "--numeric", "--keys=STATUS,UID"), text, munge)
    if ended.returncode == _NO_MUNGED:
        raise _away(ended)
    if ended.returncode:
        raise CredentialError(
            _REFUSALS.get(ended.returncode, "the munge credential is not valid: do both machines share a key?"),
            text=ended.stderr.strip(),
        )
    head, _, payload = ended.stdout.partition("\n\n")
    found = dict(line.split(":", 1) for line in head.splitlines() if ":" in line)
    uid = found.get("UID", "").strip()
    if found.get("STATUS", "").strip() != "0" or not uid.isascii() or not uid.isdigit():
        raise MungeError(f"the answer of {munge.decode[0]} could not be read", "is it of munge 0.5.13 or newer?")
    nonce = payload.rpartition("\n")[2]
    if payload != asked.statement(nonce):
        raise CredentialError("the munge credential was made for another request")
    return int(uid)


def _run(argv: tuple[str, ...], text: str, munge: Munge) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, input=text, capture_output=True, text=True, errors="replace", timeout=munge.time_limit_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MungeError(f"{argv[0]} did not answer within {munge.time_limit_s:g} s", "is munged well?") from error
    except OSError as error:
        raise MungeError(
            f"{argv[0]} cannot be run: {error.strerror}", "install munge, or show a token (--token-file)"
        ) from error


def _away(ended: subprocess.CompletedProcess[str]) -> MungeError:
    said = " ".join(ended.stderr.split())[:300] or f"exit code {ended.returncode}"
    return MungeError(f"munge cannot be asked: {said}", "start munged here, or show a token (--token-file)")
