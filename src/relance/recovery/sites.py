"""What the server knows of a site beyond its history: the rules of each cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from relance.domain.limits import Limits
from relance.domain.quiet_hours import QuietWeek
from relance.domain.requests import RequestKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRules:
    """The site's rules for one cluster.

    `kernel_log` is a path template with `{node}`, empty where kernel logs are not at hand. `opted_in` names the
    partitions whose jobs have the partition's stage without a wish of their own (None: all). Times in seconds.
    """

    cluster: str
    kernel_log: str = ""
    opted_in: frozenset[str] | None = frozenset()
    opted_in_accounts: frozenset[str] | None = None
    """Accounts to which the opt-in rule is limited, too; None: any."""
    act_partitions: frozenset[str] | None = None
    """Partitions in which may be acted at all; None: all."""
    file_systems: tuple[str, ...] = ()
    """Mount points of shared file systems, as the site names them; empty: told by the paths' first folders."""
    quiet: QuietWeek = field(default_factory=QuietWeek)
    """When nothing begins."""
    requests: frozenset[RequestKind] = frozenset()
    """What people may ask Relance to do to jobs and nodes."""
    limits: Limits = field(default_factory=Limits)
    follow_after_end_s: float = 120.0
    """How long logs are followed after an attempt's end: late evidence."""
    report_lost_s: float = 30.0
    """Without a report for this long the controller counts as lost, and the stage is capped."""
    watcher_lost_s: float = 30.0
    source_lost_s: float = 120.0
    """A source of logs or metrics that was not read to its end for this long counts as lost."""
    progress_patterns: tuple[tuple[str, str], ...] = ()
    """Progress pattern by partition."""
    hang_after_s: float | None = None
    """The site's own limit for a silent job; None: log silence alone never confirms a hang."""
    lease_s: float = 16.0
    """With the longest command (10 s) after its end and a round of orders (2 s) a successor acts within 30 s of the
    death of the holder, who begins nothing in the last 10 s of it (design 10)."""

    def covers(self, partition: str, account: str = "") -> bool:
        """Whether the opt-in rule covers jobs of this partition and account; where a job names several, of each."""
        if self.opted_in_accounts is not None and account not in self.opted_in_accounts:
            return False
        return self.opted_in is None or frozenset(partition.split(",")) <= self.opted_in

    def bars(self, partition: str) -> str:
        """Why nothing may be acted on in a partition, where the site names those in which it may; empty: it may."""
        if self.act_partitions is None or frozenset(partition.split(",")) <= self.act_partitions:
            return ""
        named = ", ".join(sorted(self.act_partitions)) or "none"
        return f"the site lets act in {named}, not in {partition or 'no partition'} (`act_partitions`)"

    def kernel_logs_of(self, nodes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Each of these nodes with the path of its kernel log; nothing where the site names none."""
        return tuple((node, self.kernel_log.replace("{node}", node)) for node in nodes) if self.kernel_log else ()

    def progress_pattern(self, partition: str) -> str | None:
        """The site's progress pattern for a partition."""
        return dict(self.progress_patterns).get(partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """All clusters served. A cluster that is not named has the defaults."""

    clusters: tuple[ClusterRules, ...] = ()
    zone: tzinfo | None = None
    """The site's own time zone, said beside UTC to owners of jobs; None: UTC alone."""

    def rules(self, cluster: str) -> ClusterRules:
        """The rules of a cluster."""
        return next((item for item in self.clusters if item.cluster == cluster), ClusterRules(cluster=cluster))
