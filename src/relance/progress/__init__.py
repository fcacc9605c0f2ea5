"""Progress lines and phases of training frameworks, read from blocks of log bytes."""
