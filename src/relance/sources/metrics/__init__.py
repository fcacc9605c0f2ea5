"""Signals from Prometheus and VictoriaMetrics."""
