"""`relance runbook`: what to do about an alarm, in a terminal, whether or not a server answers."""

from __future__ import annotations

import re
from importlib import resources

import click

from relance.cli.failures import ExitCode, FailureError
from relance.cli.screens import Screen


def sections() -> dict[str, str]:
    """Every runbook by its word."""
    text = resources.files("relance.cli").joinpath("runbooks.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"(?m)^## (\S+)\n", text)
    return {word: body.strip() for word, body in zip(parts[::2], parts[1::2], strict=True)}


@click.command("runbook")
@click.argument("word", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def runbook(word: str | None, *, as_json: bool) -> None:
    """Say what an alarm or notice means, where to look, and what to do; without WORD, list them.

    The words are those of notices (`kind`), of alarms, and of what caps a stage in `relance mode`. It asks no server.
    """
    found = sections()
    screen = Screen(as_json=as_json)
    if word is None:
        if as_json:
            screen.data(found)
            return
        for name, body in found.items():
            screen.sentence(name, _first(body))
        return
    wanted = word.lower().replace("-", "_")
    if wanted not in found:
        near = ", ".join(name for name in found if wanted in name or name in wanted) or "relance runbook lists them"
        raise FailureError(f"there is no runbook {word!r}", f"there are: {near}", ExitCode.NOT_FOUND)
    if as_json:
        screen.data({"word": wanted, "text": found[wanted]})
        return
    screen.line(wanted)
    for part in re.split(r"\n(?=\*\*)", found[wanted]):
        name, _, body = part.removeprefix("**").partition(":**")
        screen.sentence(name.lower(), " ".join(body.replace("`", "").split()))


def _first(body: str) -> str:
    """The first sentence of what it means."""
    text = " ".join(body.partition(":**")[2].partition("**")[0].replace("`", "").split())
    return text.partition(". ")[0].rstrip(".") + "."
