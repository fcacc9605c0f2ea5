"""The watcher's loop: sources in, detectors over them, findings out."""
