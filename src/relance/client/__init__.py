"""The HTTP client of the API, for the command line and for agents apart from the server."""
