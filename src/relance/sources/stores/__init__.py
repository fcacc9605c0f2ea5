"""Log stores as sources: one pace and one set of queries for all attempts, whatever the store."""
