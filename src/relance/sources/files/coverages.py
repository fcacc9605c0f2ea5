"""What was seen of an attempt's files, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Sight
from relance.sources.files.following import Followed, Following
from relance.sources.files.patterns import shown

AT_MOST = 40
"""Entries for one attempt; the rest is counted in the last one."""


def coverage_of(following: Following, *, stuck: frozenset[str], failures: Mapping[str, str]) -> tuple[Coverage, ...]:
    """One entry per path or pattern, the troubled ones first. `stuck` names those that do not answer."""
    kernel = following.labels.kernel_nodes
    entries = [
        replace(
            entry,
            source=shown(entry.source),
            scope=Scope.KERNEL if entry.source in kernel else Scope.APPLICATION,
        )
        for entry in _entries(following, stuck)
    ]
    entries += [Coverage(source=name, sight=Sight.LAGGING, note=note) for name, note in failures.items()]
    found = sorted(entries, key=lambda entry: (entry.sight is Sight.SEEN, entry.source))
    if len(found) <= AT_MOST:
        return tuple(found)
    rest = found[AT_MOST - 1 :]
    worst = next((entry.sight for entry in rest if entry.sight is not Sight.SEEN), Sight.SEEN)
    note = f"{len(rest)} more files"
    lost = sum(entry.lost_bytes for entry in rest)
    return (*found[: AT_MOST - 1], Coverage(source="…", sight=worst, note=note, lost_bytes=lost))


def _entries(following: Following, stuck: frozenset[str]) -> Iterator[Coverage]:
    for pattern, objection in following.labels.patterns.items():
        if objection:
            yield Coverage(source=pattern, sight=Sight.REFUSED, note=objection)
        elif pattern in stuck:
            yield Coverage(source=pattern, sight=Sight.LAGGING, note="its file system does not answer")
    for path in sorted(following.absent):
        yield Coverage(source=path, sight=Sight.MISSING, note="not there yet")
    for pattern in sorted(following.cut):
        yield Coverage(source=pattern, sight=Sight.LAGGING, note="has more files than are followed")
    for refused in following.refusals.values():
        for path, why in refused.items():
            yield Coverage(source=path, sight=Sight.REFUSED, note=why)
    newest = {file.path: file for file in sorted(following.files.values(), key=lambda file: file.order)}
    for path, file in newest.items():
        if path not in stuck:
            yield _entry(following, path, file)
    for path in sorted(following.gone - newest.keys() - following.lost.keys()):
        yield Coverage(source=path, sight=Sight.MISSING, note="gone: it was read before; see what became of its folder")
    for path in following.lost.keys() - newest.keys():
        lost = following.lost_bytes(path)
        yield Coverage(source=path, sight=Sight.MISSING, note=_lost(lost), lost_bytes=lost)


def _entry(following: Following, path: str, file: Followed) -> Coverage:
    lost = following.lost_bytes(path)
    if file.refused:
        return Coverage(source=path, sight=Sight.REFUSED, note=file.refused, lost_bytes=lost)
    if file.busy:
        return Coverage(source=path, sight=Sight.LAGGING, note="its file system does not answer", lost_bytes=lost)
    if file.read_to is None:
        return Coverage(source=path, sight=Sight.LAGGING, note="not read to its end yet", lost_bytes=lost)
    sight = Sight.SEEN if file.at_end or file.over else Sight.LAGGING
    return Coverage(source=path, sight=sight, up_to=file.read_to, note=_lost(lost) if lost else "", lost_bytes=lost)


def _lost(lost_bytes: int) -> str:
    return f"{lost_bytes} bytes were lost when it was truncated or rotated away"
