"""The keeper of one cluster as a process: see `relance.simulation.private_slurm.keeper`."""

from __future__ import annotations

import json
import sys

from relance.simulation.private_slurm.keeper import keep
from relance.simulation.private_slurm.plans import ClusterPlan

if __name__ == "__main__":
    asked = json.load(sys.stdin)
    keep(ClusterPlan.from_json(asked["plan"]), asked["owner"])
