"""Relance decides what to relaunch, where and when."""
