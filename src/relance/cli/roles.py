"""The verbs that run Relance: all roles in one process, or each in its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import click

from relance.cli.failures import FailureError

P = ParamSpec("P")


def runs(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """A command that loads the settings and runs one of the roles."""

    def decorate(described: Callable[..., None]) -> click.Command:
        @click.command(name)
        @click.option(
            "--config",
            type=click.Path(path_type=Path),
            help="The settings (YAML); default: $RELANCE_CONFIG, else none.",
        )
        @click.option(
            "--set", "overrides", multiple=True, metavar="NAME=VALUE", help="A setting put over the file's; repeatable."
        )
        @click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="How much is written to standard error.",
        )
        @functools.wraps(described)
        def run(*, config: Path | None, overrides: tuple[str, ...], log_level: str) -> None:
            _run(name, config, overrides, log_level)

        return run

    return decorate


@runs("up")
def up() -> None:
    """Run everything in one process: server, watcher and controller, on SQLite in the state folder."""


@runs("server")
def server() -> None:
    """Run the server alone: history, decisions, API, console."""


@runs("watcher")
def watcher() -> None:
    """Run a watcher alone: it reads logs and reports what it finds to the server."""


@runs("controller")
def controller() -> None:
    """Run a controller alone: it reports what the scheduler shows, and alone changes anything there."""


def _run(role: str, config: Path | None, overrides: tuple[str, ...], log_level: str) -> None:
    from relance import bootstrap
    from relance.config import SettingError, load_settings
    from relance.ports.histories import HistoryError
    from relance.telemetry import set_up_logs

    set_up_logs(log_level)
    start = {
        "up": bootstrap.run_up,
        "server": bootstrap.run_server,
        "watcher": bootstrap.run_watcher,
        "controller": bootstrap.run_controller,
    }[role]
    try:
        settings = load_settings(config, dict(_override(text) for text in overrides))
        if not settings.clusters:
            click.echo("relance: no cluster is set up, so no job is seen; name some in a file: --config FILE", err=True)
        start(settings)
    except (SettingError, HistoryError) as error:
        raise FailureError(str(error)) from error


def _override(text: str) -> tuple[str, object]:
    import yaml

    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError(f"--set wants NAME=VALUE, not {text!r}")
    return name, yaml.safe_load(value)
