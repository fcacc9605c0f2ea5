"""Running a site's own command for evidence on this host, bounded in time and output, whatever the scheduler."""

from __future__ import annotations

import os
from dataclasses import replace

from relance.domain.advice import Command
from relance.domain.collecting import Collected
from relance.slurm.running import Commands, run
from relance.slurm.ssh import Ssh


async def collect(commands: Commands, command: Command, time_limit_s: float, most_bytes: int) -> Collected:
    """Run a command to its end or its limit; never raises for what it does.

    The scheduler's own commands come first on its PATH, and it gets little else of our environment. Where they are in a
    container it is run there; where another host is asked for them it is run on this one, as nothing but Slurm's
    commands is run there.
    """
    path = os.environ.get("PATH", os.defpath)
    ours = {**os.environ, "PATH": f"{commands.bin_dir}:{path}" if commands.bin_dir is not None else path}
    way = None if isinstance(commands.way, Ssh) else commands.way
    output = await run(
        replace(commands, bin_dir=None, way=way),
        command.argv,
        time_limit_s=time_limit_s,
        max_output_bytes=most_bytes,
        ours=ours,
    )
    return Collected(
        exit_code=output.exit_code,
        stdout=output.stdout,
        stderr=output.stderr.encode()[:most_bytes],
        took_s=output.wall_s,
        gave_up=output.gave_up or (output.stderr if output.never_ran else ""),
    )
