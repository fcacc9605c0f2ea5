"""The HTTP API under /api/v1, with OpenAPI and server-sent events."""
