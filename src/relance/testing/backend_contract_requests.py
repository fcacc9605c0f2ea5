"""What a backend promises about what people ask for: ordered, begun once under the lease, told whatever came of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.advice import ActionEnd
from relance.domain.requests import Request, RequestClaim, RequestReport, RequestVerb
from relance.domain.stages import Stage
from relance.ports.backends import BackendRefusedError
from relance.testing.backend_stands import EFFECT, HOLDER, BackendStand


class RequestContract:
    """Orders, claims and reports of requests."""

    async def test_what_was_asked_is_an_order_until_it_is_told_what_came_of_it(self, stand: BackendStand) -> None:
        request = await _asked(stand)
        (order,) = (await stand.orders()).requests
        assert (order.request, order.why_not, order.started_at) == (request, "", None)
        assert (await stand.backend.claim_request(await _claim(stand, request))).granted
        (begun,) = (await stand.orders()).requests
        assert begun.started_by == HOLDER
        for _ in range(2):  # told again it changes nothing
            await stand.backend.record_request(_report(stand, request))
        assert (await stand.orders()).requests == ()

    async def test_it_is_begun_once_by_whoever_has_the_lease(self, stand: BackendStand) -> None:
        request = await _asked(stand)
        claim = await _claim(stand, request)
        assert not (await stand.backend.claim_request(replace(claim, holder="controller-2"))).granted
        assert (await stand.backend.claim_request(claim)).granted
        assert not (await stand.backend.claim_request(claim)).granted

    async def test_a_stage_that_is_lowered_meanwhile_holds_it_back(self, stand: BackendStand) -> None:
        request = await _asked(stand)
        await stand.set_stage(Stage.OBSERVE)
        (order,) = (await stand.orders()).requests
        assert "observe" in order.why_not
        reply = await stand.backend.claim_request(await _claim(stand, request))
        assert (reply.granted, "observe" in reply.reason) == (False, True)

    async def test_what_nobody_begins_in_time_is_ordered_no_more(self, stand: BackendStand) -> None:
        request = await _asked(stand)
        stand.clock.advance((request.expires_at - stand.clock.now()).total_seconds() + 1)
        assert (await stand.orders()).requests == ()

    async def test_a_quarantine_that_is_over_leaves_nothing_to_do(self, stand: BackendStand) -> None:
        request = await _asked(stand)
        await stand.backend.claim_request(await _claim(stand, request))
        await stand.backend.record_request(_report(stand, request))
        assert request.until is not None
        stand.clock.advance((request.until - stand.clock.now()).total_seconds() + 1)
        await stand.backend.report(stand.look())
        assert (await stand.orders()).requests == ()

    async def test_a_report_of_what_nobody_asked_for_is_refused(self, stand: BackendStand) -> None:
        request = await _asked(stand)
        with pytest.raises(BackendRefusedError):
            await stand.backend.record_request(_report(stand, replace(request, id="req-0")))


async def _asked(stand: BackendStand) -> Request:
    await stand.backend.report(stand.look())
    await stand.set_stage(Stage.APPROVE)
    request = await stand.quarantine("n1")
    assert request.verb is RequestVerb.QUARANTINE
    return request


async def _claim(stand: BackendStand, request: Request) -> RequestClaim:
    epoch = (await stand.orders()).lease.epoch
    return RequestClaim(request=request, holder=HOLDER, lease_epoch=epoch, effect=EFFECT)


def _report(stand: BackendStand, request: Request) -> RequestReport:
    return RequestReport(request=request, end=ActionEnd.SUCCEEDED, reason="", at=stand.clock.now())
