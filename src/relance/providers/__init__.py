"""Outside attribution providers: services that are asked about a verdict of ours."""
