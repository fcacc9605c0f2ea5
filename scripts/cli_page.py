"""Writes the reference page of the command line from the commands themselves.

`python scripts/cli_page.py` writes it; with `--check` it only says whether it is out of date (exit code 1).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from relance.cli.main import main as relance

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"

HEAD = """# Command line

Verbs that ask a server find it and its token by `--server` and `--token-file`, else by `RELANCE_SERVER` and
`RELANCE_TOKEN_FILE`, else by the files of the state folder (`RELANCE_STATE_DIR`, default `~/.local/state/relance`):
on the machine of the server nothing has to be said. On a login node the address is in `/etc/relance/server`, and
munge proves who asks ([](../how-to/for-researchers.md)). `--json` prints values for programs. There are no colours
where the output is no terminal, or `NO_COLOR` is set. [Exit codes](exit-codes.md) say what went wrong.
"""


def page() -> str:
    """The page as it should be."""
    return HEAD + "".join(_section(words, command) for words, command in commands(relance))


def commands(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group, groups included, in the order of the help."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))


def _section(words: tuple[str, ...], command: click.Command) -> str:
    title = " ".join(("relance", *words))
    names = relance.context_settings["help_option_names"]
    context = click.Context(
        command, info_name=title, max_content_width=110, terminal_width=110, help_option_names=names
    )
    return f"\n## `{title}`\n\n```text\n{command.get_help(context).rstrip()}\n```\n"


if __name__ == "__main__":
    wanted = page()
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted else 1)
    PAGE.write_text(wanted, encoding="utf-8")
