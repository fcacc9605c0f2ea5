"""What reads and changes a scheduler: one adapter for each."""
