"""How every verb finds its server, and the options that all verbs share."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from relance.cli.failures import told
from relance.cli.screens import Screen
from relance.client.addresses import find_server
from relance.client.people import ApiClient
from relance.client.proofs import MungeProof


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A server to ask, and a screen to answer on."""

    client: ApiClient
    screen: Screen
    is_owner: bool = False
    """Whether no token is shown: then only the own jobs are there."""


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of all verbs, and a client and a screen as its first argument.

    What goes wrong with the server ends the command with a sentence.
    """

    @click.option("--server", help="URL of the server; default: $RELANCE_SERVER, the state folder's, the site's.")
    @click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        help="File with your token; default: $RELANCE_TOKEN_FILE, the state folder's admin token, else munge.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    @functools.wraps(command)
    def asking(*, server: str | None, token_file: Path | None, as_json: bool, **options: object) -> None:
        with told():
            address = find_server(server, token_file, os.environ)
            proof = MungeProof(address.munge) if address.munge is not None else None
            with ApiClient(address.url, address.token, proof=proof) as client:
                asker = Asking(client=client, screen=Screen(as_json=as_json), is_owner=proof is not None)
                command(asker, **options)

    return asking


_MOST_S = 36_500 * 86_400.0


class Duration(click.ParamType[float]):
    """A duration such as `90s`, `30m`, `4h` or `2d`, in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        found = re.fullmatch(r"(\d{1,6})([smhd])", str(value))
        if found is None or int(found[1]) == 0:
            self.fail(f"{value!r} is not a duration; write 90s, 30m, 4h or 2d", param, ctx)
        seconds = float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]
        if seconds > _MOST_S:
            self.fail(f"{value!r} is longer than a hundred years", param, ctx)
        return seconds
