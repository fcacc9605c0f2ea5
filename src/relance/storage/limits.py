"""What an append must fit under beside its stream's version: unique keys, permits over many jobs, and the lease."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, bindparam, delete, insert, select
from sqlalchemy.exc import IntegrityError

from relance.domain.advice import Lease, PermitWish
from relance.domain.permits import bucket_free_at, counted
from relance.ports.histories import LeaseLostError, NoPermitError, NotUniqueError
from relance.storage.columns import column_key, from_payload, from_us, to_payload, to_us
from relance.storage.failures import RaceLostError
from relance.storage.tables import AnyRow, leases, permit_scopes, permits, unique_keys
from relance.storage.upserts import put

PERMITS_KEPT: Final = timedelta(hours=1)
"""Permits that no longer count are kept this long, for a limit that is made stricter meanwhile."""

_TAKEN: Final = select(permits.c.taken_at_us).where(permits.c.scope_key == bindparam("scope"))
_LEASE: Final = select(leases).where(leases.c.cluster_key == bindparam("cluster"))
_LEASE_LOCKED: Final = _LEASE.with_for_update()


def take_unique(connection: Connection, stream_id: int, keys: Sequence[str], now: datetime) -> None:
    """Take keys for ever. Raises NotUniqueError."""
    for key in keys:
        row = {"unique_key": column_key(key), "stream_id": stream_id, "taken_at_us": to_us(now)}
        try:
            connection.execute(insert(unique_keys), row)
        except IntegrityError as error:
            raise NotUniqueError(f"{key} was already taken") from error


def take_permits(connection: Connection, wishes: Sequence[PermitWish], now: datetime) -> None:
    """Take permits, each under the lock of its scope. Raises NoPermitError."""
    for wish in sorted(wishes, key=lambda wish: wish.scope):  # one order, or two claims would wait for each other
        scope = column_key(wish.scope)
        put(connection, permit_scopes, {"scope_key": scope, "touched_at_us": to_us(now)})  # takes the row's lock
        taken = _taken(connection, scope)
        free_at = bucket_free_at(taken, wish, now)
        if free_at is not None:
            raise NoPermitError(wish.scope, free_at)
        _forget(connection, scope, counted(taken, wish, now), now)
        connection.execute(insert(permits), {"scope_key": scope, "taken_at_us": to_us(now)})


def permit_free_at(connection: Connection, wish: PermitWish, now: datetime) -> datetime | None:
    """When a permit is free; None: now."""
    return bucket_free_at(_taken(connection, column_key(wish.scope)), wish, now)


def check_lease(connection: Connection, lease: Lease, now: datetime) -> None:
    """See that the lease is in force, and keep it from being changed before the commit. Raises LeaseLostError."""
    row = connection.execute(_LEASE_LOCKED, {"cluster": column_key(lease.cluster)}).one_or_none()
    if row is None:
        raise LeaseLostError(f"nobody has the lease of {lease.cluster}")
    if (_holder(row), row.epoch) != (lease.holder, lease.epoch):
        raise LeaseLostError(
            f"the lease of {lease.cluster} is with {_holder(row)} ({row.epoch}), not {lease.holder} ({lease.epoch})"
        )
    if from_us(row.expires_at_us) <= now:
        raise LeaseLostError(f"the lease of {lease.cluster} ran out at {from_us(row.expires_at_us).isoformat()}")


def take_lease(connection: Connection, wish: Lease, grace_s: float, now: datetime) -> Lease:
    """Take or renew a lease for `wish.holder`, unless another's is in force or ran out less than `grace_s` ago.

    Refused, the answer names the other holder and epoch, and `duration_s` says how long it may still take.
    """
    row = connection.execute(_LEASE_LOCKED, {"cluster": column_key(wish.cluster)}).one_or_none()
    if row is None:
        return _first_lease(connection, wish, now)
    same = _holder(row) == wish.holder
    # A lease that ends later than it can was stamped by a clock that has stepped back: it runs from now on.
    ends_at = min(from_us(row.expires_at_us), now + timedelta(microseconds=row.duration_us))
    free_at = ends_at + timedelta(seconds=grace_s)
    if not same and now < free_at:
        if to_us(ends_at) != row.expires_at_us:
            put(connection, leases, {**row._asdict(), "expires_at_us": to_us(ends_at)})
        left_s = (free_at - now).total_seconds()
        return Lease(cluster=wish.cluster, holder=_holder(row), epoch=row.epoch, duration_s=left_s, granted=False)
    epoch = row.epoch if same else row.epoch + 1
    put(connection, leases, _lease_row(wish, epoch, now))
    return Lease(cluster=wish.cluster, holder=wish.holder, epoch=epoch, duration_s=wish.duration_s)


def _first_lease(connection: Connection, wish: Lease, now: datetime) -> Lease:
    try:
        connection.execute(insert(leases), _lease_row(wish, 1, now))
    except IntegrityError as error:
        raise RaceLostError from error
    return Lease(cluster=wish.cluster, holder=wish.holder, epoch=1, duration_s=wish.duration_s)


def _lease_row(wish: Lease, epoch: int, now: datetime) -> dict[str, object]:
    duration = timedelta(seconds=wish.duration_s)
    return {
        "cluster_key": column_key(wish.cluster),
        "holder": to_payload(wish.holder),
        "epoch": epoch,
        "duration_us": duration // timedelta(microseconds=1),
        "expires_at_us": to_us(now + duration),
    }


def _holder(row: AnyRow) -> str:
    holder: str = from_payload(str, row.holder)
    return holder


def _taken(connection: Connection, scope: str) -> list[datetime]:
    return [from_us(at_us) for at_us in connection.scalars(_TAKEN, {"scope": scope})]


def _forget(connection: Connection, scope: str, still_counted: Sequence[datetime], now: datetime) -> None:
    oldest = min((now - PERMITS_KEPT, *still_counted[:1]))
    connection.execute(delete(permits).where(permits.c.scope_key == scope, permits.c.taken_at_us < to_us(oldest)))
