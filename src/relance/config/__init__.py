"""Settings: read, checked and turned into what the wiring needs."""
