"""History, permits, timers and projections in SQLite, MySQL or MariaDB."""
