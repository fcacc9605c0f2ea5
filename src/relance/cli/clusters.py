"""The cluster of the settings that a verb without a server is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from relance.config import ClusterSettings, Settings


def one_cluster(settings: Settings, name: str | None) -> ClusterSettings:
    """The named cluster, or the only one; of several one has to be named. Raises SettingError where there is none."""
    from relance.bootstrap.sites import served

    clusters = served(settings, (name,) if name else ())
    if len(clusters) > 1:
        names = ", ".join(cluster.name for cluster in clusters)
        raise click.UsageError(f"say which cluster: {names}")
    return clusters[0]
