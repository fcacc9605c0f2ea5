"""How a cluster's commands are run, from its settings."""

from __future__ import annotations

from relance.config.access import ContainerAccess, LocalAccess, SshAccess
from relance.config.settings import SlurmSchedulerSettings
from relance.slurm.containers import Container
from relance.slurm.running import Commands
from relance.slurm.ssh import Ssh


def commands_of(settings: SlurmSchedulerSettings) -> Commands:
    """Where Slurm's commands are, and with which token they ask."""
    return Commands(
        bin_dir=str(settings.bin_dir) if settings.bin_dir is not None else None,
        slurm_conf=str(settings.conf) if settings.conf is not None else None,
        way=_way(settings.access),
        token_file=str(settings.token_file) if settings.token_file is not None else None,
    )


def _way(access: LocalAccess | SshAccess | ContainerAccess) -> Ssh | Container | None:
    match access:
        case SshAccess():
            return Ssh(
                host=access.host,
                user=access.user,
                port=access.port,
                key_file=str(access.key_file or ""),
                known_hosts=str(access.known_hosts or ""),
                script=access.script,
                connect_timeout_s=access.connect_timeout_s,
            )
        case ContainerAccess():
            return Container(prefix=access.prefix)
        case LocalAccess():
            return None
