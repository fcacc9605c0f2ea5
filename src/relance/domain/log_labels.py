"""What stands before a line that a rank wrote: the labels of launchers and log collectors.

Several may stand in a row, as in `3: [rank5]: text` where srun ran one launcher for each node. The innermost name of a
rank is the true one; srun's number is that of a task, which is the rank only where a task is one rank.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(
    rb"""
      (?P<time>\ ?\[?\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?
          \]?:?(?:\ std(?:out|err)\ [FP])?\ )
    | (?P<task>\ {0,5}\d{1,6}):(?:\ |$)
    | \[rank\ ?(?P<rank>\d{1,7})\](?::\ ?|\ )
    | \[\d+,(?P<mpi>\d{1,7})\]<std[a-z]+>:\ ?
    | \[(?P<bare>\d{1,7})\]:\ ?
    | \[(?:worker|proc|process)\ (?P<worker>\d{1,7})\]:?\ ?
    | \[(?:default|trainer|worker)(?P<local>\d{1,3})\]:\ ?
    | \((?:[^()\n]{0,80}[\s,])?rank=(?P<named>\d{1,7})\b[^()\n]{0,120}\)\ ?
    | \((?P<actor>[A-Za-z]\w*\ pid=\d+)(?:,\ ip=[^()\n]{0,60})?\)\ ?
    | \[(?P<host>[A-Za-z][\w.-]*\d[\w.-]*)\](?::\ |\ )
    """,
    re.VERBOSE,
)
_NCCL = re.compile(rb"([A-Za-z0-9][\w.-]*):(\d+):\d+ \[(\d+)\][^\n]{0,200}?NCCL ")
_LONGEST = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What the labels of a line say.

    `key` tells lines of one writer from those of others in the same file; empty where nothing says who wrote. `length`
    is how many bytes the labels take; times between them are skipped. `host`, `pid` and `gpu` are NCCL's own prefix,
    `host` also that of a label such as `[gpu012]`: text, so never a proof of the node.
    """

    key: str = ""
    length: int = 0
    rank: int | None = None
    task: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: str | None = None
    gpu: str | None = None

    @property
    def best_rank(self) -> int | None:
        """The rank that a label names, else srun's task number."""
        return self.task if self.rank is None else self.rank


NO_LABEL = Label()
_SIMPLE = re.compile(rb"(?:\[rank\d{1,7}\]: |\d{1,6}: )(?=[A-Za-z])")
"""One of the two labels that most lines have, with a word after it, which begins no other label."""


def read_label(line: bytes) -> Label:
    """The labels at the start of a line."""
    head = line[:_LONGEST]
    simple = _SIMPLE.match(head)
    return _label(simple[0]) if simple is not None and b"NCCL" not in head else _read(head)


@lru_cache(maxsize=4096)
def _label(text: bytes) -> Label:
    """A label alone; a job has as many as it has ranks."""
    return _read(text)


def _read(head: bytes) -> Label:
    found: dict[str, bytes] = {}
    position = 0
    while token := _TOKEN.match(head, position):
        kind = token.lastgroup or ""
        found[kind] = token[kind].strip()
        position = token.end()
    nccl = _NCCL.match(head, position) if b"NCCL" in head else None
    if not found and nccl is None:
        return NO_LABEL
    rank = next((found[kind] for kind in ("rank", "mpi", "bare", "named", "worker") if kind in found), None)
    return Label(
        key=" ".join(f"{kind}={value.decode('latin-1')}" for kind, value in found.items() if kind != "time"),
        length=position,
        rank=None if rank is None else int(rank),
        task=_number(found.get("task")),
        local_rank=_number(found.get("local")),
        host=_text(nccl[1] if nccl else found.get("host")),
        pid=_text(nccl[2] if nccl else None),
        gpu=_text(nccl[3] if nccl else None),
    )


def _number(value: bytes | None) -> int | None:
    return None if value is None else int(value)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
