"""The web console: pages rendered on the server, live by server-sent events."""
