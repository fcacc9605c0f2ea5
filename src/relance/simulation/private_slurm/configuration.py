"""The configuration files of a private cluster. Which settings work was found on a real one, release by release."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from relance.simulation.private_slurm.layouts import Layout
from relance.simulation.private_slurm.plans import ClusterPlan, PartitionPlan
from relance.simulation.private_slurm.programs import Programs


def write_configuration(layout: Layout, plan: ClusterPlan, ports: Mapping[str, int]) -> None:
    """Write slurm.conf, cgroup.conf, slurmdbd.conf and the key of munge.

    Args:
        layout: Where to.
        plan: What the cluster shall look like.
        ports: A TCP port for `slurmctld`, for `slurmdbd` and for each node by its name.
    """
    layout.slurm_conf.write_text(slurm_conf(layout, plan, ports))
    layout.slurm_conf.chmod(0o644)
    _write_private(layout.slurmdbd_conf, slurmdbd_conf(layout, plan, ports).encode(), mode=0o600)
    _write_private(layout.munge_key, os.urandom(128), mode=0o400)


def slurm_conf(layout: Layout, plan: ClusterPlan, ports: Mapping[str, int]) -> str:
    """The text of slurm.conf."""
    host = _host()
    folder = layout.folder
    plugins = Programs(prefix=plan.prefix).plugin_dir
    lines = [
        f"ClusterName={plan.cluster_name}",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports['slurmctld']}",
        *(["CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"] if _host_is_loopback(host) else []),
        *([f"PluginDir={plugins}"] if plugins else []),
        "SlurmUser=root",
        "SlurmdUser=root",
        f"StateSaveLocation={layout.state}",
        f"SlurmdSpoolDir={folder}/spool/%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/%n.pid",
        f"SlurmctldLogFile={layout.log('slurmctld')}",
        f"SlurmdLogFile={layout.log('%n')}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket}{_expiry(plan)}",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "ReturnToService=2",
        "JobRequeue=1",
        f"MinJobAge={plan.min_job_age_s}",
        f"SlurmdTimeout={plan.slurmd_timeout_s}",
        f"KillWait={plan.kill_wait_s}",
        "SchedulerType=sched/backfill",
        f"SchedulerParameters={plan.scheduler_parameters}",
        "PriorityType=priority/multifactor",
        "PriorityWeightAge=1000",
        f"PreemptType={plan.preempt_type}",
        *([f"PreemptMode={plan.preempt_mode}"] if plan.preempt_type != "preempt/none" else []),
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={ports['slurmdbd']}",
        f"AccountingStoragePass={layout.munge_socket}",  # the socket again, else slurmdbd refuses every message
        "AccountingStorageEnforce=associations,limits,qos",
        *([f"AccountingStoreFlags={','.join(plan.accounting_store_flags)}"] if plan.accounting_store_flags else []),
        "SlurmdParameters=config_overrides",  # a node has what this file says, not what the machine has
        *(_node(plan, name, host, ports[name]) for name in plan.nodes),
        *(_partition(each) for each in plan.partitions),
        *plan.extra_lines,
    ]
    return "\n".join(lines) + "\n"


def slurmdbd_conf(layout: Layout, plan: ClusterPlan, ports: Mapping[str, int]) -> str:
    """The text of slurmdbd.conf. It holds no password: the database knows root by its socket."""
    plugins = Programs(prefix=plan.prefix).plugin_dir
    lines = [
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket}",
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        f"DbdPort={ports['slurmdbd']}",
        *([f"PluginDir={plugins}"] if plugins else []),
        "SlurmUser=root",
        f"PidFile={layout.folder}/slurmdbd.pid",
        "StorageType=accounting_storage/mysql",
        "StorageHost=localhost",
        "StorageUser=root",
        "StorageLoc=slurm_acct_db",
        f"LogFile={layout.log('slurmdbd')}",
        *(["CommunicationParameters=NoInAddrAny"] if _host_is_loopback(_host()) else []),
    ]
    return "\n".join(lines) + "\n"


def _host() -> str:
    return socket.gethostname().split(".")[0]


def _host_is_loopback(host: str) -> bool:
    """Whether Slurm can be told to listen on loopback alone.

    Its daemons listen on all addresses or on the one of the machine's name, on no other. Where that is not 127.0.0.1,
    the ports are open to the network, and the key of the private munged is what keeps strangers out.
    """
    try:
        return socket.gethostbyname(host) == "127.0.0.1"
    except OSError:
        return False


def _node(plan: ClusterPlan, name: str, host: str, port: int) -> str:
    features = plan.features.get(name, ())
    return (
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} Sockets=1"
        f" CoresPerSocket={plan.cpus_per_node} ThreadsPerCore=1 RealMemory={plan.memory_mib}"
        + (f" Feature={','.join(features)}" if features else "")
    )


def _expiry(plan: ClusterPlan) -> str:
    return "" if plan.cred_expire_s is None else f",cred_expire={plan.cred_expire_s}"


def _partition(partition: PartitionPlan) -> str:
    nodes = ",".join(partition.nodes) or "ALL"
    return f"PartitionName={partition.name} Nodes={nodes} {partition.options}".rstrip()


def _write_private(path: os.PathLike[str], content: bytes, *, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:  # noqa: PTH123 -- born private
        file.write(content)
