"""The scheduler Slurm, by its own commands."""

from __future__ import annotations

from relance.controllers.slurm.schedulers import SlurmScheduler
from relance.controllers.slurm.settings import SlurmSettings

__all__ = ["SlurmScheduler", "SlurmSettings"]
