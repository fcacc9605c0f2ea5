"""From settings to what the parts ask for."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from relance.config import ClusterSettings, SettingError, Settings
from relance.progress.own_patterns import OwnPattern, PatternError
from relance.recovery.sites import ClusterRules, Site


def site_of(settings: Settings) -> Site:
    """The rules of all clusters. Raises SettingError for a step pattern that cannot be used."""
    return Site(
        clusters=tuple(rules_of(cluster) for cluster in settings.clusters),
        zone=ZoneInfo(settings.time_zone) if settings.time_zone else None,
    )


def rules_of(cluster: ClusterSettings) -> ClusterRules:
    """The rules of one cluster. Raises SettingError for a step pattern that cannot be used."""
    for partition, pattern in cluster.progress_patterns.items():
        try:
            OwnPattern(pattern)
        except PatternError as error:
            message = f"cluster {cluster.name}: progress_patterns.{partition}: {error}. {error.remedy}"
            raise SettingError(message) from error
    opted_in: frozenset[str] | None
    if cluster.opt_in == "all":
        opted_in = None
    elif cluster.opt_in == "none":
        opted_in = frozenset()
    else:
        opted_in = frozenset(cluster.opt_in)
    return ClusterRules(
        cluster=cluster.name,
        kernel_log=cluster.kernel_log,
        opted_in=opted_in,
        limits=cluster.limits,
        progress_patterns=tuple(cluster.progress_patterns.items()),
        hang_after_s=cluster.hang_after_s,
    )


def served(settings: Settings, names: tuple[str, ...]) -> tuple[ClusterSettings, ...]:
    """The clusters that this process serves: those named, else all. Raises SettingError for an unknown name."""
    for name in names:
        if settings.cluster(name) is None:
            known = ", ".join(cluster.name for cluster in settings.clusters) or "none"
            message = f"no cluster {name!r} in the settings; there are: {known}"
            raise SettingError(message)
    chosen = tuple(cluster for cluster in settings.clusters if not names or cluster.name in names)
    if not chosen:
        message = (
            "the settings name no cluster: say where they are with --config, add one under `clusters`, or try "
            "`relance demo`"
        )
        raise SettingError(message)
    return chosen
