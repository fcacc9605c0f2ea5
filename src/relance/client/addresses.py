"""Where the server is and what to show it: from options, the environment, the state folder's own files, or the site's.

Who has no token proves the own uid by munge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from relance.client.errors import ClientError
from relance.client.proofs import munge_here
from relance.slurm.munge import Munge

SERVER_FILE = "server.json"
ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105 - the name of a file
SITE_FILE = Path("/etc/relance/server")
"""Holds the server's URL on one line, on machines where people have neither settings nor a state folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """A server's URL, and the token to show it, or how munge proves who asks where there is none."""

    url: str
    token: str = field(default="", repr=False)
    munge: Munge | None = None


def state_dir(environ: Mapping[str, str]) -> Path:
    """The state folder: `$RELANCE_STATE_DIR`, else `$XDG_STATE_HOME/relance`, else `~/.local/state/relance`."""
    if environ.get("RELANCE_STATE_DIR"):
        return Path(environ["RELANCE_STATE_DIR"])
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(base) / "relance"


def find_server(
    server: str | None, token_file: Path | None, environ: Mapping[str, str], site_file: Path = SITE_FILE
) -> ServerAddress:
    """The server to talk to: options first, then `RELANCE_SERVER` and `RELANCE_TOKEN_FILE`, the state folder, the site.

    The state folder's admin token is shown only to the state folder's own server. Without a token munge is asked to
    prove who we are. Raises ClientError when there is no address, or neither token nor munge.
    """
    folder = state_dir(environ)
    own = _own_server(folder)
    url = server or environ.get("RELANCE_SERVER") or own or _site_server(site_file)
    if not url:
        raise ClientError(
            "no server is known",
            "start one with `relance up`, or name it with --server, or its state folder with RELANCE_STATE_DIR "
            f"(looked in {folder} and {site_file})",
        )
    named = token_file or (Path(environ["RELANCE_TOKEN_FILE"]) if environ.get("RELANCE_TOKEN_FILE") else None)
    if named is not None or url.rstrip("/") == own.rstrip("/"):
        return ServerAddress(url=_with_scheme(url), token=read_token(named or folder / ADMIN_TOKEN_FILE))
    munge = munge_here(environ)
    if munge is None:
        raise ClientError(
            f"there is no token for {url}, and no munge here",
            "name the token's file with --token-file or RELANCE_TOKEN_FILE, or ask on a login node",
        )
    return ServerAddress(url=_with_scheme(url), munge=munge)


def read_token(path: Path) -> str:
    """The token in a file that only its owner can read. Raises ClientError."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"the token file {path} cannot be read: {_reason(error)}") from error
    if mode & 0o077:
        raise ClientError(f"the token file {path} can be read by others", f"chmod 600 {path}")
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ClientError(f"the token file {path} does not hold a token")
    return text


def _own_server(folder: Path) -> str:
    try:
        data = json.loads((folder / SERVER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    url = data.get("url") if isinstance(data, dict) else None
    return url if isinstance(url, str) else ""


def _site_server(site_file: Path) -> str:
    try:
        return site_file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _with_scheme(url: str) -> str:
    if "://" not in url:
        url = f"http://{url}"
    if not url.startswith(("http://", "https://")):
        raise ClientError(f"not the address of a server: {url}", "an address looks like http://127.0.0.1:8642")
    return url


def _reason(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else type(error).__name__
