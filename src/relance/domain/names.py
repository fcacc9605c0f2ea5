"""Names of the code as words for people."""

from __future__ import annotations

_ACRONYMS = frozenset({
    "cpu", "cuda", "ecc", "gpu", "hbm", "hw", "ib", "io", "nccl", "nfs", "nic", "oom", "pcie", "ras", "rdma", "tcp",
    "uid", "xid",
})  # fmt: skip


def words(identifier: str) -> str:
    """A name of the code, such as a cause or a state, as words: `gpu_fell_off_the_bus` is GPU fell off the bus."""
    return " ".join(_word(part) for part in identifier.split("_"))


def _word(part: str) -> str:
    if part == "nan":
        return "NaN"
    return part.upper() if part in _ACRONYMS else part
