"""Log files: growing, late, rotated, truncated; opened without following links, read to the byte exactly once."""
