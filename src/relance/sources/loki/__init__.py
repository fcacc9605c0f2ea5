"""Grafana Loki as a log store."""
