"""Measurements that hold the bars: `python -m bench`."""
