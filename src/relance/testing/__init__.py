"""Contract suites and builders for the authors of adapters and for our own tests."""
