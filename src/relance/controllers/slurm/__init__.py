"""The scheduler Slurm, by its own commands on this host."""
