"""What labels say of a stream: whose job, which node, which rank; and the name by which it is known to people."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from relance.domain.keys import AttemptKey
from relance.sources.stores.backs import Selection
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.templates import job_value, node_in, node_value

_ADDED = frozenset({"service_name", "detected_level"})
"""Labels that Loki adds by itself: the second changes from line to line where a client asks for no more."""
_NAME_CHARS = 160
_VALUE_CHARS = 60
_RANK_DIGITS = 7
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:-]{0,251}[A-Za-z0-9_])?", re.ASCII)
"""What may be the name or the address of a node; other values of its label name none."""


class Labels:
    """The labels of one store, by a site's settings."""

    def __init__(self, settings: StoreSourceSettings) -> None:
        self._settings = settings

    @property
    def has_kernel_logs(self) -> bool:
        """Whether the kernel logs of nodes can be asked for."""
        return bool(self._settings.kernel_match and self._settings.node_label)

    def job_value(self, attempt: AttemptKey) -> str:
        """The value of the job's label that an attempt's streams have."""
        return job_value(self._settings.job_value, attempt.job.cluster, attempt.job.raw_id)

    def node_value(self, node: str) -> str:
        """The value of the node's label that a node's streams have."""
        return node_value(self._settings.node_value, node)

    def job_of(self, labels: Mapping[str, str]) -> str:
        """The value of the job's label; empty for a kernel log."""
        return "" if self._is_kernel(labels) else labels.get(self._settings.job_label, "")

    def node_of(self, labels: Mapping[str, str], known: Sequence[str] = ()) -> str | None:
        """The node, by the template; by the scheduler's own name where one of those known is meant."""
        value = labels.get(self._settings.node_label, "") if self._settings.node_label else ""
        node = node_in(self._settings.node_value, value)
        if not node:
            return None
        short = node.partition(".")[0]
        if node not in known and short in known:
            return short
        return node if node in known or _HOST.fullmatch(node) is not None else None

    def rank_of(self, labels: Mapping[str, str]) -> int | None:
        """The rank, where a label holds it."""
        value = labels.get(self._settings.rank_label, "") if self._settings.rank_label else ""
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _RANK_DIGITS else None

    def of_jobs(self, values: Iterable[str], lines: str) -> Selection:
        """All streams of some jobs."""
        return Selection(labels={**self._fixed(), self._settings.job_label: tuple(values)}, lines=lines)

    def of_kernels(self, values: Iterable[str], lines: str) -> Selection:
        """The kernel logs of some nodes."""
        kernel = {name: (value,) for name, value in self._settings.kernel_match.items()}
        return Selection(labels={**self._fixed(), **kernel, self._settings.node_label: tuple(values)}, lines=lines)

    def name_of(self, labels: Mapping[str, str]) -> str:
        """A stable name of a stream, such as `loki:{job_id="17",node="n1"}`; shortened where it is long."""
        fixed = self._settings.match
        told = [
            f'{name}="{_shown(value)}"'
            for name, value in sorted(labels.items())
            if name not in _ADDED and name not in fixed
        ]
        name = f"{self._settings.name}:{{{','.join(told)}}}"
        if len(name) <= _NAME_CHARS:
            return name
        return f"{name[: _NAME_CHARS - 12]}…{_digest(labels)}}}"

    def _fixed(self) -> dict[str, Sequence[str]]:
        return {name: (value,) for name, value in self._settings.match.items()}

    def _is_kernel(self, labels: Mapping[str, str]) -> bool:
        kernel = self._settings.kernel_match
        return bool(kernel) and all(labels.get(name) == value for name, value in kernel.items())


def _shown(value: str) -> str:
    text = "".join(char if char.isprintable() and char != '"' else "?" for char in value)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}…"


def _digest(labels: Mapping[str, str]) -> str:
    text = "\0".join(f"{name}\1{value}" for name, value in sorted(labels.items()) if name not in _ADDED)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
