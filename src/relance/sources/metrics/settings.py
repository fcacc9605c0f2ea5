"""Where a metric store is, and how its labels name nodes and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from relance.rules.metric_queries import DEFAULT_NODE_LABELS, Naming
from relance.sources.exchanges import ExchangeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSeries:
    """Series by which jobs export their own progress; a name that is empty is not asked for.

    `job_value` is made of `{raw_id}` and `{cluster}`. All series bear `job_label`.
    """

    job_label: str = "job_id"
    job_value: str = "{raw_id}"
    step: str = ""
    loss: str = ""
    grad_norm: str = ""
    step_time_s: str = ""
    throughput: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSettings:
    """One metric store. Times in seconds.

    `match` are labels that every series of this cluster has. `node_label` names the node, `node_value` says how, made
    of `{node}`; with an empty label the first counts that a series has of Hostname, node, nodename, instance.
    """

    exchange: ExchangeSettings
    name: str = "prometheus"
    match: Mapping[str, str] = field(default_factory=dict)
    node_label: str = ""
    node_value: str = "{node}"
    poll_s: float = 15.0
    requests_per_s: float = 10.0
    progress: ProgressSeries | None = None

    @property
    def naming(self) -> Naming:
        """How series are selected and which labels may name the node."""
        return Naming(node_labels=(self.node_label,) if self.node_label else DEFAULT_NODE_LABELS, match=self.match)
