"""Names of the code as words for people."""

from __future__ import annotations

_ACRONYMS = frozenset({
    "cpu", "cuda", "ecc", "gpu", "hbm", "ib", "io", "nan", "nccl", "nfs", "nic", "oom", "pcie", "ras", "rdma", "tcp",
    "uid", "xid",
})  # fmt: skip


def words(identifier: str) -> str:
    """A name of the code, such as a cause or a state, as words: `gpu_fell_off_the_bus` is GPU fell off the bus."""
    return " ".join(part.upper() if part in _ACRONYMS else part for part in identifier.split("_"))
