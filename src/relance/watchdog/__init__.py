"""The watchdog: frees what a dead controller holds, and saves what it took; the standard library only (design 11)."""
