"""The first schema: head, streams, events, projections, and the rows beside them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.String(255)
PAYLOAD = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
BYTES = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "ascii", "mysql_collate": "ascii_bin"}
TABLES = (
    *("head", "streams", "events", "incidents", "incident_names", "unique_keys", "permit_scopes", "permits", "leases"),
    *("reports", "checkpoints", "progress", "progress_minutes", "attachments", "kept_logs", "tokens", "holders"),
)


def upgrade() -> None:
    """Create every table."""
    if op.get_bind().dialect.name != "sqlite":
        # MySQL commits each table by itself: a first start that was killed half-way leaves some, and all are empty.
        for name in TABLES:
            op.drop_table(name, if_exists=True)
    _streams_and_events()
    _projections()
    _limits()
    _rows_beside_an_attempt()
    _kept_logs()
    _current_states()


def _streams_and_events() -> None:
    head = op.create_table(
        "head",
        sa.Column("id", sa.SmallInteger(), primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        **MYSQL,
    )
    op.bulk_insert(head, [{"id": 1, "position": 0}])
    op.create_table(
        "streams",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("stream_key", KEY, nullable=False),
        sa.Column("name", PAYLOAD, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("cluster_key", KEY, nullable=False),
        sa.Column("raw_id_key", KEY),
        sa.Column("name_key", KEY),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("changed_at_us", sa.BigInteger(), nullable=False),
        sa.Column("wake_at_us", sa.BigInteger()),
        sa.Column("record_schema", sa.SmallInteger(), nullable=False),
        sa.Column("record", PAYLOAD, nullable=False),
        sa.UniqueConstraint("stream_key", name="uq_streams_stream_key"),
        sqlite_autoincrement=True,
        **MYSQL,
    )
    op.create_index("ix_streams_wake", "streams", ["wake_at_us"])
    op.create_index("ix_streams_kind", "streams", ["kind", "position"])
    op.create_index("ix_streams_cluster", "streams", ["kind", "cluster_key", "position"])
    op.create_index("ix_streams_raw_id", "streams", ["raw_id_key"])
    op.create_index("ix_streams_name", "streams", ["name_key"])
    op.create_table(
        "events",
        sa.Column("position", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("stream_id", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("schema_version", sa.SmallInteger(), nullable=False),
        sa.Column("recorded_at_us", sa.BigInteger(), nullable=False),
        sa.Column("payload", PAYLOAD, nullable=False),
        sa.UniqueConstraint("stream_id", "version", name="uq_events_stream_version"),
        **MYSQL,
    )


def _projections() -> None:
    op.create_table(
        "incidents",
        sa.Column("id_key", KEY, primary_key=True),
        sa.Column("stream_id", sa.BigInteger(), nullable=False),
        sa.Column("cluster_key", KEY, nullable=False),
        sa.Column("is_open", sa.SmallInteger(), nullable=False),
        sa.Column("opened_at_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_us", sa.BigInteger()),
        **MYSQL,
    )
    op.create_index("ix_incidents_stream", "incidents", ["stream_id"])
    op.create_index("ix_incidents_opened", "incidents", ["opened_at_us"])
    op.create_index("ix_incidents_open", "incidents", ["is_open", "opened_at_us"])
    op.create_index("ix_incidents_cluster", "incidents", ["cluster_key", "opened_at_us"])
    op.create_table(
        "incident_names",
        sa.Column("name_key", KEY, primary_key=True),
        sa.Column("id_key", KEY, nullable=False),
        sa.Column("stream_id", sa.BigInteger(), nullable=False),
        **MYSQL,
    )
    op.create_index("ix_incident_names_stream", "incident_names", ["stream_id"])


def _limits() -> None:
    op.create_table(
        "unique_keys",
        sa.Column("unique_key", KEY, primary_key=True),
        sa.Column("stream_id", sa.BigInteger(), nullable=False),
        sa.Column("taken_at_us", sa.BigInteger(), nullable=False),
        **MYSQL,
    )
    op.create_table(
        "permit_scopes",
        sa.Column("scope_key", KEY, primary_key=True),
        sa.Column("touched_at_us", sa.BigInteger(), nullable=False),
        **MYSQL,
    )
    op.create_table(
        "permits",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("scope_key", KEY, nullable=False),
        sa.Column("taken_at_us", sa.BigInteger(), nullable=False),
        **MYSQL,
    )
    op.create_index("ix_permits_scope", "permits", ["scope_key", "taken_at_us"])
    op.create_table(
        "leases",
        sa.Column("cluster_key", KEY, primary_key=True),
        sa.Column("holder", PAYLOAD, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("duration_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_us", sa.BigInteger(), nullable=False),
        **MYSQL,
    )


def _rows_beside_an_attempt() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("attempt_key", KEY, primary_key=True),
        sa.Column("stored_at_us", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint", PAYLOAD, nullable=False),
        **MYSQL,
    )
    op.create_index("ix_checkpoints_stored", "checkpoints", ["stored_at_us"])
    op.create_table(
        "progress",
        sa.Column("attempt_key", KEY, primary_key=True),
        sa.Column("stored_at_us", sa.BigInteger(), nullable=False),
        sa.Column("progress", PAYLOAD, nullable=False),
        **MYSQL,
    )
    op.create_index("ix_progress_stored", "progress", ["stored_at_us"])
    op.create_table(
        "progress_minutes",
        sa.Column("attempt_key", KEY, primary_key=True),
        sa.Column("minute", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("stored_at_us", sa.BigInteger(), nullable=False),
        sa.Column("progress", PAYLOAD, nullable=False),
        **MYSQL,
    )
    op.create_index("ix_progress_minutes_stored", "progress_minutes", ["stored_at_us"])


def _kept_logs() -> None:
    op.create_table(
        "attachments",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("kept_at_us", sa.BigInteger(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("data", BYTES, nullable=False),
        **MYSQL,
    )
    op.create_index("ix_attachments_kept", "attachments", ["kept_at_us"])
    op.create_table(
        "kept_logs",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("piece", sa.String(64), nullable=False),
        sa.Column("job_key", KEY, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("kept_at_us", sa.BigInteger(), nullable=False),
        sa.Column("kept", PAYLOAD, nullable=False),
        sa.UniqueConstraint("piece", name="uq_kept_logs_piece"),
        **MYSQL,
    )
    op.create_index("ix_kept_logs_job", "kept_logs", ["job_key"])
    op.create_index("ix_kept_logs_digest", "kept_logs", ["digest"])


def _current_states() -> None:
    op.create_table(
        "reports",
        sa.Column("cluster_key", KEY, primary_key=True),
        sa.Column("session", PAYLOAD, nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("stored_at_us", sa.BigInteger(), nullable=False),
        sa.Column("report", BYTES, nullable=False),
        **MYSQL,
    )
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("name_key", KEY, nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), nullable=False),
        sa.Column("token", PAYLOAD, nullable=False),
        **MYSQL,
    )
    op.create_index("ix_tokens_name", "tokens", ["name_key"])
    op.create_table(
        "holders",
        sa.Column("place", sa.String(32), primary_key=True),
        sa.Column("holder", PAYLOAD, nullable=False),
        sa.Column("since_us", sa.BigInteger(), nullable=False),
        sa.Column("seen_at_us", sa.BigInteger(), nullable=False),
        **MYSQL,
    )
