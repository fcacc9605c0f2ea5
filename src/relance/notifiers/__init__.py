"""What tells people: a command, a webhook."""
