"""What observing proved, computed from the history alone."""
