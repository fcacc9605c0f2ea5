"""VictoriaLogs as a log store."""
