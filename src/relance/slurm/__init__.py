"""Build, run and parse the commands of Slurm, releases 22.05 to 25.11; the standard library only."""
