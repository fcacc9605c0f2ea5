"""`relance token`: who may do what."""

from __future__ import annotations

import os
from pathlib import Path

import click

from relance.cli.asking import Asking, asks
from relance.cli.failures import FailureError
from relance.ports.tokens import TokenRole

_OWNER_ONLY = 0o600


@click.group("token")
def token() -> None:
    """Give and revoke tokens. A token carries a person's name, which every decision is recorded with."""


@token.command("add")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in TokenRole]),
    default=TokenRole.VIEWER.value,
    show_default=True,
    help="admin: everything. operator: read and decide. viewer: read. agent: a watcher or controller.",
)
@click.option("--file", "path", type=click.Path(path_type=Path), help="Write it to a new file of mode 0600 instead.")
@asks
def add(ask: Asking, /, name: str, role: str, path: Path | None) -> None:
    """Make a token for NAME. It is shown this once; only its digest is kept."""
    handle = _open(path) if path else None
    secret = ask.client.add_token(name, TokenRole(role))
    if handle is not None:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{secret}\n")
    shown = None if path else secret
    if ask.screen.as_json:
        ask.screen.data({"name": name, "role": role, "secret": shown, "file": str(path) if path else None})
    else:
        click.echo(shown or f"written to {path}")


@token.command("list")
@asks
def list_tokens(ask: Asking, /) -> None:
    """List tokens by name and role; never their secrets."""
    tokens = ask.client.tokens()
    if ask.screen.as_json:
        ask.screen.data(tokens)
        return
    ask.screen.table(
        ("name", "role", "made at (UTC)"),
        ((one["name"], one["role"], one["created_at"][:19].replace("T", " ")) for one in tokens),
        empty="there is no token",
    )


@token.command("drop")
@click.argument("name")
@asks
def drop(ask: Asking, /, name: str) -> None:
    """Revoke all tokens of NAME, and the sessions that stand on them."""
    number = ask.client.drop_tokens(name)
    if ask.screen.as_json:
        ask.screen.data({"dropped": number})
    else:
        ask.screen.line(f"{number} revoked")


def _open(path: Path) -> int:
    """A new file that only its owner reads, before there is a secret to write."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _OWNER_ONLY)
    except OSError as error:
        raise FailureError(f"cannot write {path}: {error.strerror}", "name a file that does not exist yet") from error
