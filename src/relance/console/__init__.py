"""The web console: pages rendered on the server, kept fresh by server-sent events."""

from __future__ import annotations

from relance.console.apps import create_console

__all__ = ["create_console"]
