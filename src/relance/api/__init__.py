"""The HTTP API under /api/v1, with OpenAPI and server-sent events."""

from __future__ import annotations

from relance.api.apps import create_app
from relance.api.first_tokens import write_admin_token, write_token
from relance.serving.parts import ServerParts, WebSettings

__all__ = ["ServerParts", "WebSettings", "create_app", "write_admin_token", "write_token"]
