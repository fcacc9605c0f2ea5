"""What is known of one attempt's files, and how looks and reads change it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.domain.views import Assignment
from relance.sources.files.beginnings import Beginning
from relance.sources.files.chains import FileOutcome, FileRequest
from relance.sources.files.disks import Identity, Sighting
from relance.sources.files.labels import Labels
from relance.sources.files.looks import Look, LookRequest
from relance.sources.files.patterns import rotated_from
from relance.sources.files.positions import FilePosition, Positions
from relance.sources.files.settings import FileSettings
from relance.sources.files.tailing import Label

_RETRY_S = 30.0
"""A refused file is tried again after this long."""
_LEFT_AT_MOST = 32


@dataclass(slots=True, kw_only=True, eq=False)
class Followed:
    """One file: what it is, how far it has been read, and its descriptor while it is open."""

    identity: Identity
    path: str
    found_at: str
    label: Label
    order: int
    beginning: Beginning | None = None
    position: FilePosition | None = None
    fd: int | None = None
    size_seen: int = 0
    retired_at: float | None = None
    at_end: bool = False
    """The read under way, or the last one, came to its end."""
    caught_up: bool = False
    """The last read that came back was to its end."""
    read_to: datetime | None = None
    """When it was last read to its end."""
    over: bool = False
    """Read to its end for good."""
    busy: bool = False
    """A thread is at work on it."""
    refused: str = ""
    retry_at: float = 0.0

    @property
    def place(self) -> FilePosition | None:
        """How far it has been read, with what has been learned since."""
        position, retired = self.position, self.retired_at is not None
        if position is None or (position.size_seen == self.size_seen and position.retired == retired):
            return position
        return replace(position, size_seen=self.size_seen, retired=retired)

    @property
    def unread_bytes(self) -> int:
        """How many bytes are known to be there and not delivered."""
        position = self.position
        if position is None:
            return self.size_seen
        return max(self.size_seen - position.offset, position.held_bytes)


class Following:
    """One attempt's files."""

    def __init__(self, assignment: Assignment, settings: FileSettings, restored: Positions | None, now: float) -> None:
        """Begin from the positions of a checkpoint; those of an earlier attempt of the job say where that one ended."""
        self._settings = settings
        self._count = 0
        self.assignment = assignment
        self.labels = Labels(assignment, settings)
        self.files: dict[Identity, Followed] = {}
        self.refusals: dict[str, dict[str, str]] = {}
        """Paths that are there and may not be read, with the reason, by pattern."""
        self.absent: set[str] = set()
        """Paths at which nothing has been yet."""
        self.gone: set[str] = set()
        """Paths that were followed, and at which there is nothing now."""
        self.cut: set[str] = set()
        self.lost: dict[str, int] = {}
        self.known_paths: set[str] = set()
        self.job_over = False
        """Whether the job's own logs have been read to their end after the attempt's end."""
        self.ended_seen_at: float | None = None
        self.closing: list[tuple[Followed | None, int]] = []
        """Files with descriptors that are no longer wanted; whoever calls closes them."""
        self._left: list[FilePosition] = []
        self.update(assignment, now)
        if restored is not None:
            self._restore(restored, now)

    # ------------------------------------------------------------------------------------------------ what to follow

    def update(self, assignment: Assignment, now: float) -> None:
        """Take a newer assignment of the same attempt."""
        self.assignment = assignment
        if assignment.ended_at is not None and self.ended_seen_at is None:
            self.ended_seen_at = now
        self.labels = Labels(assignment, self._settings)

    def stop_job_logs(self) -> None:
        """Read the job's own logs no further."""
        self.job_over = True
        for file in self.files.values():
            if file.label.scope is Scope.APPLICATION:
                file.over = True
                self.give_up(file)

    def give_up(self, file: Followed) -> None:
        """Have a file's descriptor closed, unless a thread is at work on it."""
        if file.fd is not None and not file.busy:
            self.closing.append((file, file.fd))
            file.fd = None

    def is_open_for_looks(self, pattern: str) -> bool:
        """Whether a pattern is still to be looked at."""
        return not self.labels.patterns[pattern] and (pattern in self.labels.kernel_nodes or not self.job_over)

    def stop(self) -> None:
        """Read nothing further."""
        for file in self.files.values():
            file.over = True
            self.give_up(file)

    def tail_requests(self, read_at: datetime, at_most_bytes: int) -> list[FileRequest]:
        """The newest file of each path, to take its last part."""
        newest = {file.path: file for file in sorted(self.files.values(), key=lambda file: file.order)}
        wanted = [file for file in newest.values() if file.position is not None and not file.busy]
        return [replace(self._request(file, read_at, over=True), at_most_bytes=at_most_bytes) for file in wanted]

    def look_request(self, pattern: str) -> LookRequest:
        """What a look at a pattern needs to know."""
        sought: dict[str, frozenset[Identity]] = {}
        for file in self.files.values():
            if not file.over and not file.busy and (file.fd is None or file.retired_at is None):
                sought[file.path] = sought.get(file.path, frozenset()) | {file.identity}
        return LookRequest(pattern=pattern, at_most=self._settings.files_per_attempt, sought=sought)

    def requests(self, read_at: datetime, now: float, *, late_s: float) -> dict[str, list[FileRequest]]:
        """The reads to do, by path; kernel logs first, and of each path the oldest file first."""
        chains: dict[str, list[FileRequest]] = {}
        for file in sorted(self.files.values(), key=lambda file: (file.label.scope is not Scope.KERNEL, file.order)):
            if file.over or file.busy or (file.refused and now < file.retry_at):
                continue
            over = self._is_over(file, now, late_s)
            chains.setdefault(file.path, []).append(self._request(file, read_at, over=over))
        return chains

    # ------------------------------------------------------------------------------------------------ what was found

    def take_look(self, look: Look, now: float) -> None:
        """Learn what lies at a pattern's paths."""
        if look.pattern not in self.labels.patterns:
            return
        seen = {sighting.path for sighting in look.sightings}
        self.refusals[look.pattern] = dict(look.refused)
        self.absent -= seen | {look.pattern}
        self.absent |= set(look.absent) - self.known_paths
        self.gone = (self.gone - seen) | (set(look.absent) & self.known_paths)
        (self.cut.add if look.cut else self.cut.discard)(look.pattern)
        for sighting in look.sightings:
            self._take_sighting(sighting, look, now)
        for path in look.siblings:
            self._settle_missing(path, look)

    def take_outcome(self, outcome: FileOutcome, now: float) -> tuple[LogBlock, ...]:
        """Learn what a read gave: its blocks."""
        file = self.files.get(outcome.identity)
        if file is None:
            self.closing += [(None, outcome.fd)] if outcome.fd is not None else []
            return ()
        file.fd = outcome.fd if outcome.fd is not None else file.fd
        file.refused = outcome.refused
        file.retry_at = now + _RETRY_S
        file.at_end = file.caught_up = outcome.read is not None and outcome.read.at_end
        if outcome.read is None:
            return ()
        read = outcome.read
        file.read_to = outcome.read_at if file.at_end else file.read_to
        reach = read.position.offset + read.position.held_bytes
        truncated = file.position is not None and read.position.offset < file.position.offset
        file.size_seen = reach if truncated or file.at_end else max(file.size_seen, reach)
        file.position = read.position
        if file.over:
            self.give_up(file)
        elif file.at_end and not read.position.held_bytes and self._is_drained(file, now):
            self._drop(file)
        return read.blocks

    def finish_job_logs(self, now: float, *, late_s: float) -> None:
        """After the attempt's end: give up the job's logs once all of them have been read to their end."""
        files = [file for file in self.files.values() if file.label.scope is Scope.APPLICATION]
        late = self.ended_seen_at is not None and now - self.ended_seen_at >= late_s
        if late and not self.job_over and all(file.at_end or file.refused for file in files):
            self.stop_job_logs()

    @property
    def is_read_to_its_end(self) -> bool:
        """Whether every file is, there is at least one, and no path that was followed is closed to us now."""
        living = [file for file in self.files.values() if not file.over]
        readable = [file for file in living if not file.refused]
        if any(file.busy for file in living) or not all(file.at_end for file in readable):
            return False
        if any(file.refused and file.position is not None for file in living):
            return False
        if any(path in self.known_paths for refused in self.refusals.values() for path in refused):
            return False
        return any(file.position is not None for file in self.files.values())

    def positions(self) -> Positions:
        """What to go on from after a restart."""
        files = [file.place for file in self.files.values() if file.place is not None]
        return Positions(
            attempt=str(self.assignment.attempt), files=tuple(files), left=tuple(self._left), lost=dict(self.lost)
        )

    def lost_bytes(self, path: str) -> int:
        """How many bytes of a path's files are known to have been lost."""
        now = sum(file.position.lost_bytes for file in self.files.values() if file.position and file.path == path)
        return now + self.lost.get(path, 0)

    # ------------------------------------------------------------------------------------------------------- inwards

    def _restore(self, restored: Positions, now: float) -> None:
        own = restored.attempt == str(self.assignment.attempt)
        self.lost = dict(restored.lost) if own else {}
        self._left = list(restored.left)
        for position in restored.files:
            if not self.labels.covers(position.path):
                continue
            if not own:
                position = replace(  # noqa: PLW2901 - where the earlier attempt ended, this one begins
                    position,
                    start=position.offset,
                    inherited=True,
                    lost_bytes=0,
                    size_seen=position.offset,
                    held_bytes=0,
                    held="",
                )
            self._count += 1
            file = Followed(
                identity=position.identity,
                path=position.path,
                found_at=position.path,
                label=self.labels.label(position.path),
                order=self._count,
                position=position,
                size_seen=position.size_seen,
                caught_up=position.size_seen == position.offset + position.held_bytes,
                retired_at=now if position.retired else None,
            )
            if own:
                self.known_paths.add(position.path)
            self.files[position.identity] = file

    def _take_sighting(self, sighting: Sighting, look: Look, now: float) -> None:
        path = sighting.path
        file = self.files.get(sighting.identity)
        if file is not None:
            file.found_at = path
            if not file.caught_up:  # else its size may already be that of what came after a truncation
                file.size_seen = max(file.size_seen, sighting.size_bytes)
            if file.path == path:
                self._retire(path, look, now, keep=file)
                file.retired_at = None
                self.known_paths.add(path)
            return
        rotated = rotated_from(path)
        if (rotated is not None and rotated[0] in self.known_paths) or self._was_drained(sighting):
            return
        if len(self.files) >= self._settings.files_per_attempt:
            self.cut.add(look.pattern)
            return
        self._retire(path, look, now)
        beginning = None if path in self.known_paths else self.labels.beginning(path)
        file = self._add(sighting, path, beginning, retired_at=None)
        # Gone and back again: it goes on where it was, unless its bytes say that only the inode is the same.
        file.position = next((each for each in self._left if each.identity == file.identity), None)
        self.known_paths.add(path)

    def _retire(self, path: str, look: Look, now: float, keep: Followed | None = None) -> None:
        """A path holds another file: what it held before is read to its end, wherever it lies now."""
        older = [each for each in self.files.values() if each.path == path and not each.over and each is not keep]
        siblings = look.siblings.get(path, {})
        numbers = [number for number, each in siblings.items() if any(each.identity == file.identity for file in older)]
        for file in older:
            if file.position is not None and file.position.inherited:
                self._drop(file)  # what follows there is the earlier attempt's
                continue
            file.retired_at = now if file.retired_at is None else file.retired_at
            file.found_at = next((each.path for each in siblings.values() if each.identity == file.identity), path)
        # Rotated more than once since the last look: the files in between were never seen under this path.
        for number in sorted((each for each in siblings if numbers and each < max(numbers)), reverse=True):
            if siblings[number].identity not in self.files:
                self._add(siblings[number], path, None, retired_at=now)

    def _add(self, sighting: Sighting, path: str, beginning: Beginning | None, retired_at: float | None) -> Followed:
        self._count += 1
        file = Followed(
            identity=sighting.identity,
            path=path,
            found_at=sighting.path,
            label=self.labels.label(path),
            order=self._count,
            size_seen=sighting.size_bytes,
            beginning=beginning,
            retired_at=retired_at,
        )
        self.files[file.identity] = file
        return file

    def _settle_missing(self, path: str, look: Look) -> None:
        """Count what is lost of files that were rotated away and can be found nowhere."""
        there = {sighting.identity: sighting.path for sighting in look.siblings[path].values()}
        there |= {sighting.identity: sighting.path for sighting in look.sightings}
        for file in [each for each in self.files.values() if each.path == path and each.fd is None]:
            if file.busy or file.over:
                continue
            if file.identity in there:
                file.found_at = there[file.identity]
                continue
            inherited = file.position is not None and file.position.inherited
            self._drop(file, lost_bytes=0 if inherited else file.unread_bytes)

    def _drop(self, file: Followed, lost_bytes: int = 0) -> None:
        """Follow a file no longer."""
        self.files.pop(file.identity, None)
        self.give_up(file)
        if file.position is not None:
            lost_bytes += file.position.lost_bytes
            left = replace(file.position, path=file.path, lost_bytes=0, size_seen=0)
            self._left = [*(each for each in self._left if each.identity != file.identity), left][-_LEFT_AT_MOST:]
        if lost_bytes:
            self.lost[file.path] = self.lost.get(file.path, 0) + lost_bytes

    def _was_drained(self, sighting: Sighting) -> bool:
        """Whether a file under a new name is one that was read to its end under another; an inode may be used again."""
        if sighting.path in self.known_paths:
            return False
        return any(each.identity == sighting.identity and sighting.size_bytes >= each.offset for each in self._left)

    def _request(self, file: Followed, read_at: datetime, *, over: bool) -> FileRequest:
        return FileRequest(
            identity=file.identity,
            path=file.path,
            found_at=file.found_at,
            owners=self.labels.owners(file.label.scope),
            label=file.label,
            beginning=file.beginning,
            read_at=read_at,
            at_most_bytes=self._settings.file_bytes,
            fd=file.fd,
            position=file.place,
            over=over,
        )

    def _is_drained(self, file: Followed, now: float) -> bool:
        return file.retired_at is not None and now - file.retired_at >= self._settings.drain_s

    def _is_over(self, file: Followed, now: float, late_s: float) -> bool:
        if file.retired_at is not None:
            return self._is_drained(file, now)
        if file.label.scope is Scope.KERNEL or self.ended_seen_at is None:
            return False
        return now - self.ended_seen_at >= late_s
