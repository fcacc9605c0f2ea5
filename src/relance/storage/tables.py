"""The tables as statements use them. What creates them is in `migrations`; a test holds the two together.

Keys are ASCII of at most 255 characters, compared byte by byte (`columns.column_key`); names that end in `_us` are
times in microseconds since 1970, UTC; payloads are JSON in ASCII (`columns.to_payload`).
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem

from relance.storage.columns import KEY_LENGTH

METADATA: Final = MetaData()

AnyRow = Row[*tuple[Any, ...]]
"""A row of any statement."""

KEY: Final = String(KEY_LENGTH)
PAYLOAD: Final = Text().with_variant(mysql.LONGTEXT(), "mysql")
BYTES: Final = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")
ID: Final = BigInteger().with_variant(Integer(), "sqlite")


def _table(name: str, *parts: SchemaItem) -> Table:
    return Table(
        name,
        METADATA,
        *parts,
        mysql_engine="InnoDB",
        mysql_charset="ascii",
        mysql_collate="ascii_bin",
        sqlite_autoincrement=name == "streams",  # an id is never used again, because snapshots are cached by it
    )


head = _table(
    "head",
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
)
"""One row: the newest position. Its lock, taken last in a transaction, gives commits their order."""

streams = _table(
    "streams",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("stream_key", KEY, nullable=False),
    Column("name", PAYLOAD, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("cluster_key", KEY, nullable=False),
    Column("raw_id_key", KEY),
    Column("name_key", KEY),
    Column("version", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("changed_at_us", BigInteger, nullable=False),
    Column("wake_at_us", BigInteger),
    Column("record_schema", SmallInteger, nullable=False),
    Column("record", PAYLOAD, nullable=False),
    UniqueConstraint("stream_key", name="uq_streams_stream_key"),
    Index("ix_streams_wake", "wake_at_us"),
    Index("ix_streams_kind", "kind", "position"),
    Index("ix_streams_cluster", "kind", "cluster_key", "position"),
    Index("ix_streams_raw_id", "raw_id_key"),
    Index("ix_streams_name", "name_key"),
)
"""One row a stream: its version, its timer, and the record folded from its events. `position` is its newest event's."""

events = _table(
    "events",
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("stream_id", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    Column("type", String(64), nullable=False),
    Column("schema_version", SmallInteger, nullable=False),
    Column("recorded_at_us", BigInteger, nullable=False),
    Column("payload", PAYLOAD, nullable=False),
    UniqueConstraint("stream_id", "version", name="uq_events_stream_version"),
)
"""What happened: written once, never changed."""

incidents = _table(
    "incidents",
    Column("id_key", KEY, primary_key=True),
    Column("stream_id", BigInteger, nullable=False),
    Column("cluster_key", KEY, nullable=False),
    Column("is_open", SmallInteger, nullable=False),
    Column("opened_at_us", BigInteger, nullable=False),
    Column("ended_at_us", BigInteger),
    Index("ix_incidents_stream", "stream_id"),
    Index("ix_incidents_opened", "opened_at_us"),
    Index("ix_incidents_open", "is_open", "opened_at_us"),
    Index("ix_incidents_cluster", "cluster_key", "opened_at_us"),
)
"""Where each incident is; the incident itself is in its job's record."""

incident_names = _table(
    "incident_names",
    Column("name_key", KEY, primary_key=True),
    Column("id_key", KEY, nullable=False),
    Column("stream_id", BigInteger, nullable=False),
    Index("ix_incident_names_stream", "stream_id"),
)
"""The ids of advice and actions, by which an incident can be asked for too."""

unique_keys = _table(
    "unique_keys",
    Column("unique_key", KEY, primary_key=True),
    Column("stream_id", BigInteger, nullable=False),
    Column("taken_at_us", BigInteger, nullable=False),
)
"""What may happen once for ever."""

permit_scopes = _table(
    "permit_scopes",
    Column("scope_key", KEY, primary_key=True),
    Column("touched_at_us", BigInteger, nullable=False),
)
"""One row a limit; its lock makes two claims take turns."""

permits = _table(
    "permits",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("scope_key", KEY, nullable=False),
    Column("taken_at_us", BigInteger, nullable=False),
    Index("ix_permits_scope", "scope_key", "taken_at_us"),
)
"""When permits were taken."""

leases = _table(
    "leases",
    Column("cluster_key", KEY, primary_key=True),
    Column("holder", PAYLOAD, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("duration_us", BigInteger, nullable=False),
    Column("expires_at_us", BigInteger, nullable=False),
)
"""Who may begin actions on a cluster, and until when."""

reports = _table(
    "reports",
    Column("cluster_key", KEY, primary_key=True),
    Column("session", PAYLOAD, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("stored_at_us", BigInteger, nullable=False),
    Column("report", BYTES, nullable=False),
)
"""The newest whole look at each cluster, compressed."""

checkpoints = _table(
    "checkpoints",
    Column("attempt_key", KEY, primary_key=True),
    Column("stored_at_us", BigInteger, nullable=False),
    Column("checkpoint", PAYLOAD, nullable=False),
    Index("ix_checkpoints_stored", "stored_at_us"),
)
"""The watcher's last checkpoint of each attempt."""

progress = _table(
    "progress",
    Column("attempt_key", KEY, primary_key=True),
    Column("stored_at_us", BigInteger, nullable=False),
    Column("progress", PAYLOAD, nullable=False),
    Index("ix_progress_stored", "stored_at_us"),
)
"""The newest progress of each attempt."""

progress_minutes = _table(
    "progress_minutes",
    Column("attempt_key", KEY, primary_key=True),
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("stored_at_us", BigInteger, nullable=False),
    Column("progress", PAYLOAD, nullable=False),
    Index("ix_progress_minutes_stored", "stored_at_us"),
)
"""The last progress of each minute (since 1970) of each attempt."""

attachments = _table(
    "attachments",
    Column("digest", String(64), primary_key=True),
    Column("kept_at_us", BigInteger, nullable=False),
    Column("stored_bytes", BigInteger, nullable=False),
    Column("data", BYTES, nullable=False),
    Index("ix_attachments_kept", "kept_at_us"),
)
"""Kept bytes by their SHA-256, compressed, each once."""

kept_logs = _table(
    "kept_logs",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("piece", String(64), nullable=False),
    Column("job_key", KEY, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("kept_at_us", BigInteger, nullable=False),
    Column("kept", PAYLOAD, nullable=False),
    UniqueConstraint("piece", name="uq_kept_logs_piece"),
    Index("ix_kept_logs_job", "job_key"),
    Index("ix_kept_logs_digest", "digest"),
)
"""Which piece of which log has which bytes. `piece` is a hash of attempt, file, offset and digest."""

tokens = _table(
    "tokens",
    Column("digest", String(64), primary_key=True),
    Column("name_key", KEY, nullable=False),
    Column("created_at_us", BigInteger, nullable=False),
    Column("token", PAYLOAD, nullable=False),
    Index("ix_tokens_name", "name_key"),
)
"""API tokens; the secret itself is not stored."""

holders = _table(
    "holders",
    Column("place", String(32), primary_key=True),
    Column("holder", PAYLOAD, nullable=False),
    Column("since_us", BigInteger, nullable=False),
    Column("seen_at_us", BigInteger, nullable=False),
)
"""Who holds the whole database, for the message to the second who tries. The lock itself is not in a table."""
