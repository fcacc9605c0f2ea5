"""What an attempt's assignment says of a path: whether it is followed, as what, and from where on."""

from __future__ import annotations

import fnmatch
import re

from relance.domain.faults import Scope
from relance.domain.views import Assignment
from relance.sources.files.beginnings import Beginning, earliest
from relance.sources.files.disks import RefusedError
from relance.sources.files.patterns import PATTERNS_AT_MOST, check_pattern, node_of, rank_of
from relance.sources.files.settings import FileSettings
from relance.sources.files.tailing import Label


class Labels:
    """The paths of one assignment."""

    def __init__(self, assignment: Assignment, settings: FileSettings) -> None:
        self._assignment = assignment
        self._settings = settings
        self._rank_patterns = tuple(re.compile(pattern) for pattern in settings.rank_patterns)
        self.kernel_nodes = {path: node for node, path in assignment.kernel_logs}
        self.patterns: dict[str, str] = {}
        """Each pattern with the words that say why it is not followed, empty if it is; kernel logs first."""
        for index, pattern in enumerate(dict.fromkeys((*self.kernel_nodes, *assignment.log_paths))):
            self.patterns[pattern] = _objection(pattern)
            if index >= PATTERNS_AT_MOST + len(self.kernel_nodes):
                self.patterns[pattern] = f"more than {PATTERNS_AT_MOST} log paths: name fewer, with wildcards"

    def covers(self, path: str) -> bool:
        """Whether a path is one of the assignment's."""
        return any(path == pattern or fnmatch.fnmatchcase(path, pattern) for pattern in self.patterns)

    def owners(self, scope: Scope) -> frozenset[int]:
        """The users to whom a file may belong (design 12)."""
        if scope is Scope.KERNEL:
            return frozenset({0, self._settings.own_uid})
        return frozenset({self._assignment.owner_uid})

    def label(self, path: str) -> Label:
        """Scope, node and rank of a path's lines, as far as the path tells."""
        node = self.kernel_nodes.get(path)
        if node is not None:
            return Label(scope=Scope.KERNEL, node=node)
        nodes, per_node = self._assignment.nodes, self._assignment.ranks_per_node
        rank = rank_of(path, self._rank_patterns, len(nodes) * per_node if per_node else None)
        return Label(scope=Scope.APPLICATION, node=node_of(path, nodes), rank=rank)

    def beginning(self, path: str) -> Beginning:
        """Where the attempt's part of a path begins that is seen for the first time."""
        return Beginning(
            shared=path in self.kernel_nodes,
            since=earliest(self._assignment.started_at, self._settings.stale_s),
            look_back_bytes=self._settings.look_back_bytes,
        )


def _objection(pattern: str) -> str:
    try:
        check_pattern(pattern)
    except RefusedError as error:
        return str(error)
    return ""
