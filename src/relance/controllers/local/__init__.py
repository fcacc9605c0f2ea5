"""The scheduler of simulated nodes on this machine."""

from __future__ import annotations

from relance.controllers.local.schedulers import LocalScheduler

__all__ = ["LocalScheduler"]
