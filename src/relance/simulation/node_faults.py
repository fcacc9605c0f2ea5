"""Broken nodes: the flag that breaks one, the mark that a rank leaves when it dies of it, and what the kernel says.

The trainer reads the flag and leaves the mark; the daemon writes the kernel's lines when it finds the mark at the end
of a rank, so that a node's kernel speaks only of a fault that has really struck.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

FLAG = "broken-xid79"
"""In the node's folder: the GPU of its first rank is about to fall off the bus. JSON with `after_steps` and
`kernel_delay_s`."""
RAISED = "raised-xid79"
"""In the node's folder: a rank has just died of it."""
SLOW_FLAG = "slowed"
"""In the node's folder: the steps of all its ranks take longer. JSON with `factor`."""
XID79, SLOW = "xid79", "slow"
KINDS = (XID79, SLOW)

XID79_LINES = (
    "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:9b:00): 154, pid='<unknown>', name=<unknown>, GPU recovery action changed from 0x0 to 0x2",
)


def out_of_memory_lines(pid: int) -> tuple[str, ...]:
    """What the kernel says when it kills a process for memory."""
    return (
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid={pid},uid={os.getuid()}",
        f"Memory cgroup out of memory: Killed process {pid} (python) total-vm:81920000kB, anon-rss:65536000kB",
    )


def append(kernel_log: Path, lines: Sequence[str], node: str, now: float) -> None:
    """Append lines to a kernel log, each with time and node before it."""
    at = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")
    with kernel_log.open("a", encoding="utf-8") as file:
        file.write("".join(f"{at} {node} kernel: {line}\n" for line in lines))


def break_node(node_dir: Path, *, after_steps: int, kernel_delay_s: float) -> None:
    """Set the flag."""
    new = node_dir / f"{FLAG}.new"
    new.write_text(json.dumps({"after_steps": after_steps, "kernel_delay_s": kernel_delay_s}), encoding="utf-8")
    new.replace(node_dir / FLAG)


def slow_node(node_dir: Path, *, factor: float) -> None:
    """Set the flag of a node whose steps take so many times as long."""
    new = node_dir / f"{SLOW_FLAG}.new"
    new.write_text(json.dumps({"factor": factor}), encoding="utf-8")
    new.replace(node_dir / SLOW_FLAG)


def slowness(node_dir: Path) -> float:
    """How many times as long a step takes on this node."""
    try:
        return float(json.loads((node_dir / SLOW_FLAG).read_text(encoding="utf-8"))["factor"])
    except FileNotFoundError:
        return 1.0


def mend_node(node_dir: Path) -> None:
    """Take the flags away."""
    for name in (FLAG, RAISED, SLOW_FLAG):
        (node_dir / name).unlink(missing_ok=True)


def steps_until_break(node_dir: Path) -> int | None:
    """How many steps a rank on this node still makes; None on a sound node."""
    try:
        return int(json.loads((node_dir / FLAG).read_text(encoding="utf-8"))["after_steps"])
    except FileNotFoundError:
        return None


def raise_mark(node_dir: Path) -> None:
    """Leave the mark of a rank that dies of the fault."""
    (node_dir / RAISED).touch()


def taken_raise(node_dir: Path) -> float | None:
    """Take the mark away, if there is one, and give the seconds until the kernel speaks."""
    try:
        (node_dir / RAISED).unlink()
    except FileNotFoundError:
        return None
    with contextlib.suppress(FileNotFoundError):
        return float(json.loads((node_dir / FLAG).read_text(encoding="utf-8"))["kernel_delay_s"])
    return 0.0
