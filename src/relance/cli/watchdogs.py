"""`relance watchdog-settings`: a settings file for the watchdog, from the main settings."""

from __future__ import annotations

from pathlib import Path

import click

from relance.cli.failures import FailureError


@click.command("watchdog-settings")
@click.option("--config", type=click.Path(path_type=Path), help="The settings (YAML); default: $RELANCE_CONFIG.")
def watchdog_settings(config: Path | None) -> None:
    """Print a settings file for relance-watchdog, with the clusters of the main settings.

    \b
        relance watchdog-settings --config /etc/relance/relance.yaml > /etc/relance/watchdog.toml
        relance-watchdog /etc/relance/watchdog.toml

    It starts at stage observe: the watchdog then only records what it would do.
    """  # noqa: D301 - \b is click's own
    from relance.bootstrap.watchdog_files import watchdog_file
    from relance.config import SettingError, load_settings

    try:
        click.echo(watchdog_file(load_settings(config)), nl=False)
    except SettingError as error:
        raise FailureError(str(error)) from error
