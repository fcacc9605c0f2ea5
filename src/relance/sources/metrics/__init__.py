"""Signals from Prometheus and VictoriaMetrics."""

from __future__ import annotations

from relance.sources.metrics.settings import MetricSettings, ProgressSeries
from relance.sources.metrics.sources import MetricSource

__all__ = ["MetricSettings", "MetricSource", "ProgressSeries"]
