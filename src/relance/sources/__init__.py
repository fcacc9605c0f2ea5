"""Where observations come from: log files, log stores, metrics."""
