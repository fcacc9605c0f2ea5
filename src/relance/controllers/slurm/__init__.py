"""The scheduler Slurm, by its own commands on this host."""

from __future__ import annotations

from relance.controllers.slurm.schedulers import SlurmScheduler
from relance.controllers.slurm.settings import SlurmSettings, commands_of

__all__ = ["SlurmScheduler", "SlurmSettings", "commands_of"]
