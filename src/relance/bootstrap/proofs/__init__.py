"""Proof before power: whether the signals of a site arrive, asked of its sources and judged from what they said.

`facts` are what was said, `asking_logs`, `asking_files` and `asking_metrics` ask, `log_rows`, `metric_rows`,
`node_names` and `rule_outlooks` judge (pure), `signals` puts it together, `markers` sends a line through all of it.
"""
