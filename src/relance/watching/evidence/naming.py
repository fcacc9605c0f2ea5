"""What the name of a file tells: the kind of log, the node or rank that wrote it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from relance.domain.faults import Scope

_PACKED = (".gz", ".zst", ".xz", ".bz2")
_ENDINGS = (
    ".log", ".txt", ".out", ".err", ".prom", ".metrics", ".csv", ".tsv", ".json", ".yaml", ".yml", ".md", ".current",
)  # fmt: skip
_ROTATED = re.compile(r"\.\d{1,3}$")
_KERNEL = "dmesg|kern|kernel|kmsg|console|journal|journalctl|messages|syslog|vmcore-dmesg|netconsole|rasdaemon|mcelog"
_UPKEEP = "apt|dpkg|yum|dnf|unattended-upgrades|auditd"
_DAEMON = "slurmd|slurmstepd|kubelet|containerd|dockerd|crio|pbs_mom|sbatchd"
_CENTRE = (
    "slurmctld|slurmdbd|controller|scheduler|events?|kube[a-z-]*|k8s[a-z-]*|kueue|jobset|operator|pytorchjobs?"
    "|trainjobs?|autoscaler|sky|fleet|spot|cloud"
)
_DEVICE = "fabricmanager|nvidia-fabricmanager|nv-fabricmanager|fabric-manager|nvlsm|imex|nvidia-imex|ufm[a-z-]*"
_METER = "metrics?|prometheus|node[-_]exporter|dcgm[-_]exporter|dcgm|telemetry|host[-_]?mem|scrape"
_COMMAND = (
    "df|free|top|ps|ss|netstat|ulimit|lsblk|mount|ibstat|ibstatus|ibv_devinfo|ibdiagnet|perfquery|ethtool|rdma|lspci"
    "|nvidia-smi|smi|rocm-smi|dcgmi|dcgm-diag|diag|sinfo|squeue|sacct|scontrol|uptime|who|last|chronyc|notes?|readme"
    "|triage|ticket|comments?|quota|lfs|env|ipmitool|sel|bmc|ipmi|redfish|sensors"
)
_KINDS: tuple[tuple[str, Scope], ...] = (
    (_KERNEL, Scope.KERNEL),
    (_UPKEEP, Scope.KERNEL),
    (_DAEMON, Scope.SCHEDULER),
    (_CENTRE, Scope.SCHEDULER),
    (_DEVICE, Scope.DEVICE),
    (_METER, Scope.METRICS),
    (_COMMAND, Scope.NOTES),
)
_OF_HOSTS = frozenset({Scope.KERNEL, Scope.DEVICE})
"""What stands beside these words is a node; beside others it may be anything."""
_BEFORE = tuple((re.compile(rf"^(?:{words})(?:[-_.](?P<node>.+))?$", re.IGNORECASE), scope) for words, scope in _KINDS)
_BEHIND = tuple((re.compile(rf"^(?P<node>.+)[-_.](?:{words})$", re.IGNORECASE), scope) for words, scope in _KINDS)
_OUTPUT = re.compile(
    r"(?:^|[-_.])(?:job|rank|worker|master|launcher|trainer|train|training|slurm|stdout|stderr|output|run|pretrain|sft"
    r"|attempts?|replica|pod)(?:[-_.]|\d|$)|\.(?:out|err)$",
    re.IGNORECASE,
)
_RANK = re.compile(r"(?:^|[-_.])rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_WORKER = re.compile(r"(?:^|[-_.])worker[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_GENERIC_FOLDERS = frozenset(
    {"", ".", "log", "logs", "var", "node", "nodes", "host", "hosts", "kernel", "dmesg", "slurm"}
)
_JOINTS = ".-_:<"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a name tells. `scope` None: nothing sure. `is_output` says that it is called as a job's output is."""

    scope: Scope | None = None
    node: str | None = None
    rank: int | None = None
    worker: int | None = None
    is_output: bool = False


def read_name(name: str, nodes: tuple[str, ...] = ()) -> Named:
    """What the name of a file tells; a node is one of `nodes` where the name has one of them.

    `dmesg-NODE.log`, `NODE.dmesg`, `syslog.NODE` and `NODE/kern.log` are logs of that node.
    """
    folder, _, base = name.rpartition("/")
    stem = stem_of(base)
    rank, worker = _RANK.search(stem), _WORKER.search(stem)
    scope, told = _kind_of(stem, nodes)
    if scope is None and _OUTPUT.search(unpacked(base.lower())):
        return Named(
            node=known_node(stem, nodes) or known_node(folder.rpartition("/")[2], nodes),
            rank=int(rank[1]) if rank else None,
            worker=int(worker[1]) if worker else None,
            is_output=True,
        )
    node = (node_in(told, nodes) if scope in _OF_HOSTS or nodes == () else known_node(told, nodes)) if told else None
    if node is None and not told:
        node = _node_of_folder(folder, nodes, sure=scope in (Scope.KERNEL, Scope.DEVICE)) or known_node(stem, nodes)
    return Named(
        scope=scope,
        node=node,
        rank=int(rank[1]) if rank else None,
        worker=int(worker[1]) if worker else None,
    )


def node_in(text: str, nodes: tuple[str, ...]) -> str:
    """The one of `nodes` that a piece of a name means, else the piece itself: a node that is not the attempt's."""
    return known_node(text, nodes) or text


def known_node(text: str, nodes: tuple[str, ...]) -> str | None:
    """The one of `nodes` that a text names: whole, by its full or its short name, or as a part between joints."""
    if not text:
        return None
    lowered = text.lower()
    found = [node for node in nodes if _has_part(lowered, node.lower())]
    if not found:
        found = [node for node in nodes if "." in node and _has_part(lowered, node.partition(".")[0].lower())]
    return max(found, key=len, default=None)


def unpacked(base: str) -> str:
    """A file's name without the ending that packing adds: its content is given unpacked."""
    return next((base.removesuffix(end) for end in _PACKED if base.endswith(end)), base)


def stem_of(base: str) -> str:
    """A file's name without what packing, rotating and the usual endings add."""
    stem = base
    while True:
        shorter = next((stem[: -len(end)] for end in (*_PACKED, *_ENDINGS) if stem.lower().endswith(end)), stem)
        if shorter == stem:
            rotated = _ROTATED.sub("", stem)
            shorter = rotated if rotated.lower().endswith(_ENDINGS) or rotated.lower() in _ROTATING else stem
        if shorter in (stem, ""):
            return stem
        stem = shorter


_ROTATING = frozenset({"syslog", "messages", "dmesg", "kern", "kernel"})


def _kind_of(stem: str, nodes: tuple[str, ...]) -> tuple[Scope | None, str]:
    for pattern, scope in _BEFORE:
        found = pattern.match(stem)
        if found:
            return scope, found["node"] or ""
    for pattern, scope in _BEHIND:
        found = pattern.match(stem)
        # A word behind tells less than one before: `train-events` is a job's, `gpu003.dmesg` is a node's.
        if found and (scope in (Scope.KERNEL, Scope.METRICS) or known_node(found["node"], nodes)):
            return scope, found["node"]
    return None, ""


def _node_of_folder(folder: str, nodes: tuple[str, ...], *, sure: bool) -> str | None:
    last = folder.rpartition("/")[2]
    known = known_node(last, nodes)
    if known is not None or nodes or not sure or last.lower() in _GENERIC_FOLDERS:
        return known
    return last


def _has_part(text: str, node: str) -> bool:
    at = text.find(node)
    while at >= 0:
        end = at + len(node)
        if (at == 0 or text[at - 1] in _JOINTS) and (end == len(text) or text[end] in _JOINTS):
            return True
        at = text.find(node, at + 1)
    return False
