from __future__ import annotations

from dataclasses import replace

from relance.controlling.leases import renewed
from relance.domain.advice import Lease

LEASE = Lease(cluster="alpha", holder="one", epoch=1, duration_s=20.0)


def test_a_lease_is_counted_from_before_it_was_asked_for() -> None:
    held = renewed(None, LEASE, 100.0)
    assert held.left_s(100.5) == 19.5
    assert held.left_s(130.0) == 0.0


def test_a_lease_that_was_not_granted_is_worth_nothing() -> None:
    assert renewed(None, replace(LEASE, granted=False), 100.0).left_s(100.0) == 0.0


def test_a_renewal_without_a_gap_keeps_the_time_since_which_it_is_held() -> None:
    held = renewed(renewed(None, LEASE, 100.0), LEASE, 110.0)
    assert (held.held_since_s, held.left_s(110.0)) == (100.0, 20.0)


def test_a_gap_another_epoch_or_another_holder_begins_anew() -> None:
    first = renewed(None, LEASE, 100.0)
    assert renewed(first, LEASE, 121.0).held_since_s == 121.0
    assert renewed(first, replace(LEASE, epoch=2), 110.0).held_since_s == 110.0
    lost = renewed(first, replace(LEASE, granted=False), 110.0)
    assert renewed(lost, LEASE, 112.0).held_since_s == 112.0
