"""The wiring: builds the roles from the settings and connects them."""

from __future__ import annotations

from relance.bootstrap.roles import run_controller, run_server, run_up, run_watcher

__all__ = ["run_controller", "run_server", "run_up", "run_watcher"]
