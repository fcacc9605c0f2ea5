"""Output of Slurm's commands to records: whatever is not understood raises, so that it never reads as "not there"."""
