"""The history over SQL: the port's calls as pieces of work for a database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from relance.domain.advice import Lease, PermitWish
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.progress import Progress
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord
from relance.domain.streams import Recorded, Stream
from relance.domain.views import ClusterReport
from relance.ports.clocks import Clock
from relance.ports.histories import Append, IncidentRow, KeptLog, Snapshot
from relance.storage import (
    appends,
    attempt_rows,
    kept_logs,
    limits,
    projections,
    queries,
    recorded,
    reports,
    retention,
    snapshots,
)
from relance.storage.caches import VersionedCache
from relance.storage.databases import Database
from relance.storage.filesystems import file_system_of
from relance.storage.mysql_servers import MysqlServer
from relance.storage.places import SqlitePlace, read_place
from relance.storage.recorded import StoryCache
from relance.storage.retention import Pruned, Retention
from relance.storage.snapshots import RecordCache
from relance.storage.sqlite_files import SqliteFile
from relance.storage.tokens import SqlTokens

Listener = Callable[[tuple[Recorded, ...]], None]

CACHE_CHARS: Final = 6_000_000
"""Characters of JSON kept decoded, for records and for events: some 100 jobs in the midst of incidents."""
REBUILT_AT_ONCE: Final = 50
TAKEOVER_GRACE_S: Final = 10.0
"""Longest time limit of a command: a successor acts no sooner than lease + this (design 10)."""


class SqlHistory:
    """Implements `relance.ports.histories.History` on SQLite, MySQL and MariaDB.

    What `subscribe` promises holds for this object's own appends; what other processes append is seen by `follow`.
    `token_store` keeps the API tokens in the same database.
    """

    def __init__(self, database: Database, takeover_grace_s: float = TAKEOVER_GRACE_S) -> None:
        self._database = database
        self._takeover_grace_s = takeover_grace_s
        self._records: RecordCache = VersionedCache(CACHE_CHARS)
        self._stories: StoryCache = VersionedCache(CACHE_CHARS)
        self._reports = reports.Reports()
        self._listeners: list[Listener] = []
        self.token_store = SqlTokens(database)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        clock: Clock,
        writers: int = 8,
        busy_timeout_s: float = 5.0,
        takeover_grace_s: float = TAKEOVER_GRACE_S,
        file_system_of: Callable[[Path], str] = file_system_of,
    ) -> SqlHistory:
        """Open the database that `url` names, and make its tables or bring them up to this program.

        `sqlite:////folder/relance.db` or `mysql+pymysql://user:password@host/database`. `writers` is the number of
        transactions that run at once on a server (a file has one); `busy_timeout_s` how long to wait for another
        process that is writing to the file. Raises StorageUnusableError with the remedy, and never with the URL in it.
        """
        place = read_place(url)
        database: Database
        if isinstance(place, SqlitePlace):
            database = await SqliteFile.open(place, clock, busy_timeout_s, file_system_of)
        else:
            database = await MysqlServer.open(place, clock, writers)
        return cls(database, takeover_grace_s)

    async def lock_exclusively(self, holder: str) -> None:
        """Take the database for this process alone, until `close`; one `relance up` per database.

        `holder` says who we are to the next who tries, such as host, process id and start time. Raises
        StorageUnusableError that names the other holder. It keeps out others who ask for the same lock, nobody else.
        """
        await self._database.lock(holder)

    async def close(self) -> None:
        await self._database.close()

    # ------------------------------------------------------------------------------------------------------- streams

    async def append(self, batch: Append, now: datetime) -> tuple[Recorded, ...]:
        loop = asyncio.get_running_loop()

        def done(stored: appends.Appended) -> None:
            stored.note(self._records, self._stories)
            if stored.recorded and self._listeners:
                with suppress(RuntimeError):  # the event loop has ended: nobody listens any more
                    loop.call_soon_threadsafe(self._tell, stored.recorded)

        stored = await self._database.write(
            lambda connection: appends.append(connection, batch, now, self._records), done
        )
        return stored.recorded

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def _tell(self, stored: tuple[Recorded, ...]) -> None:
        for listener in self._listeners:
            listener(stored)

    async def load(self, stream: Stream) -> Snapshot:
        return await self._database.read(lambda connection: snapshots.load(connection, stream, self._records))

    async def read(self, stream: Stream, after_version: int = 0) -> tuple[Recorded, ...]:
        return await self._database.read(
            lambda connection: recorded.read_stream(connection, stream, after_version, self._stories)
        )

    async def follow(self, after: int, limit: int = 500) -> tuple[Recorded, ...]:
        return await self._database.read(lambda connection: recorded.events_beyond(connection, after, limit))

    async def head(self) -> int:
        return await self._database.read(recorded.newest_position)

    async def due(self, now: datetime, limit: int = 500) -> tuple[Stream, ...]:
        return await self._database.read(lambda connection: queries.due(connection, now, limit))

    async def next_due(self) -> datetime | None:
        return await self._database.read(queries.next_due)

    # ------------------------------------------------------------------------------------------- rows beside streams

    async def put_report(self, report: ClusterReport, now: datetime) -> None:
        row = await asyncio.to_thread(self._reports.row, report, now)
        if await self._database.write(lambda connection: reports.put_report(connection, row)):
            self._reports.remember(report)

    async def report(self, cluster: str) -> ClusterReport | None:
        return await self._database.read(lambda connection: self._reports.newest(connection, cluster))

    async def take_lease(self, cluster: str, holder: str, duration_s: float, now: datetime) -> Lease:
        """Take or renew the lease; another holder gets it only `takeover_grace_s` after it ran out.

        Refused, the answer names the present holder and epoch, and `duration_s` is how long it may still take.
        """
        wish = Lease(cluster=cluster, holder=holder, epoch=0, duration_s=duration_s)
        return await self._database.write(
            lambda connection: limits.take_lease(connection, wish, self._takeover_grace_s, now)
        )

    async def permit_free_at(self, wish: PermitWish, now: datetime) -> datetime | None:
        return await self._database.read(lambda connection: limits.permit_free_at(connection, wish, now))

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        return await self._database.read(lambda connection: attempt_rows.checkpoint_of(connection, attempt))

    async def progress(self, attempt: AttemptKey) -> Progress | None:
        return await self._database.read(lambda connection: attempt_rows.progress_of(connection, attempt))

    async def progress_rows(self, attempt: AttemptKey) -> tuple[Progress, ...]:
        return await self._database.read(lambda connection: attempt_rows.minutes_of(connection, attempt))

    async def kept_logs(self, job: JobKey) -> tuple[KeptLog, ...]:
        return await self._database.read(lambda connection: kept_logs.kept_of(connection, job))

    async def kept_bytes(self, digest: str) -> bytes | None:
        return await self._database.read(lambda connection: kept_logs.bytes_of(connection, digest))

    # ----------------------------------------------------------------------------------------------------- questions

    async def jobs(
        self, cluster: str | None = None, limit: int = 1000, changed_since: datetime | None = None
    ) -> tuple[JobRecord, ...]:
        wanted = queries.JobFilter(cluster=cluster, limit=limit, changed_since=changed_since)
        return await self._database.read(lambda connection: queries.jobs(connection, self._records, wanted))

    async def find_jobs(self, text: str) -> tuple[JobRecord, ...]:
        return await self._database.read(lambda connection: queries.find_jobs(connection, self._records, text))

    async def incidents(
        self, *, open_only: bool = False, cluster: str | None = None, since: datetime | None = None, limit: int = 200
    ) -> tuple[IncidentRow, ...]:
        wanted = queries.IncidentFilter(open_only=open_only, cluster=cluster, since=since, limit=limit)
        return await self._database.read(lambda connection: queries.list_incidents(connection, self._records, wanted))

    async def find_incident(self, id_or_advice: str) -> IncidentRow | None:
        return await self._database.read(
            lambda connection: queries.find_incident(connection, self._records, id_or_advice)
        )

    async def nodes(self, cluster: str | None = None) -> tuple[NodeRecord, ...]:
        return await self._database.read(lambda connection: queries.nodes(connection, self._records, cluster))

    async def clusters(self) -> tuple[ClusterRecord, ...]:
        return await self._database.read(lambda connection: queries.clusters(connection, self._records))

    # -------------------------------------------------------------------------------------------------------- upkeep

    async def rebuild(self) -> int:
        """Write all projections anew, some streams at a time, so that appends go on meanwhile."""
        last: int | None = 0
        total = 0
        while last is not None:
            some = partial(projections.rebuild_some, after=last, most=REBUILT_AT_ONCE)
            last, count = await self._database.write(some)
            self._records.clear()
            total += count
        return total

    async def prune(self, now: datetime, keep: Retention = Retention()) -> Pruned:  # noqa: B008 - frozen
        """Delete what is older than `keep` says, a little at a time."""
        events_before = retention.earlier(now, keep.events_s)
        attachments_before = retention.earlier(now, keep.attachments_s)
        progress_before = retention.earlier(now, keep.progress_s)
        checkpoints_before = retention.earlier(now, keep.checkpoints_s)
        write = self._database.write
        return Pruned(
            jobs=await self._until_none(lambda c: retention.drop_old_jobs(c, events_before)),
            attachments=await self._until_none(
                lambda c: retention.drop_old_attachments(c, attachments_before, keep.attachments_bytes)
            ),
            progress_rows=await write(lambda c: retention.drop_old_progress(c, progress_before)),
            checkpoints=await write(lambda c: retention.drop_old_checkpoints(c, checkpoints_before)),
        )

    async def _until_none(self, drop: Callable[[Connection], int]) -> int:
        total = 0
        while dropped := await self._database.write(drop):
            total += dropped
        return total
