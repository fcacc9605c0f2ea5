"""From settings to what the parts ask for."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from relance.config import ClusterSettings, SettingError, Settings
from relance.config.gates import OptInSettings
from relance.domain.quiet_hours import QuietWeek
from relance.progress.own_patterns import OwnPattern, PatternError
from relance.recovery.sites import ClusterRules, Site


def site_of(settings: Settings) -> Site:
    """The rules of all clusters. Raises SettingError for a step pattern that cannot be used."""
    zone = zone_of(settings)
    return Site(clusters=tuple(rules_of(cluster, zone) for cluster in settings.clusters), zone=zone)


def zone_of(settings: Settings) -> ZoneInfo | None:
    """The site's own time zone; None: it is said in UTC alone."""
    return ZoneInfo(settings.time_zone) if settings.time_zone else None


def rules_of(cluster: ClusterSettings, zone: tzinfo | None = None) -> ClusterRules:
    """The rules of one cluster; `zone` is that of local times. Raises SettingError for a bad step pattern."""
    for partition, pattern in cluster.progress_patterns.items():
        try:
            OwnPattern(pattern)
        except PatternError as error:
            message = f"cluster {cluster.name}: progress_patterns.{partition}: {error}. {error.remedy}"
            raise SettingError(message) from error
    opted_in, accounts = opted_in_of(cluster)
    quiet = tuple(item.hours for item in cluster.quiet_hours)
    return ClusterRules(
        cluster=cluster.name,
        kernel_log=cluster.kernel_log,
        opted_in=opted_in,
        opted_in_accounts=accounts,
        act_partitions=frozenset(cluster.act_partitions) if cluster.act_partitions is not None else None,
        file_systems=tuple(str(path) for path in cluster.file_systems),
        quiet=QuietWeek(hours=quiet, zone=zone or UTC),
        limits=cluster.limits,
        requests=cluster.actions.kinds,
        progress_patterns=tuple(cluster.progress_patterns.items()),
        hang_after_s=cluster.hang_after_s,
    )


def opted_in_of(cluster: ClusterSettings) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """Partitions and accounts whose jobs need no wish of their own; None: any."""
    rule = cluster.opt_in
    if isinstance(rule, OptInSettings):
        partitions = None if rule.partitions == "all" else frozenset(rule.partitions)
        return partitions, None if rule.accounts == "all" else frozenset(rule.accounts)
    if isinstance(rule, str):
        return None if rule == "all" else frozenset(), None
    return frozenset(rule), None


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
