"""The one seam in process and over HTTP keeps the same promises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relance.client import HttpBackend
from relance.domain.limits import Limits
from relance.domain.requests import Request, RequestKind, RequestVerb
from relance.domain.stages import EndRunning, Stage
from relance.ports.backends import Backend, BackendRefusedError, BackendUnavailableError
from relance.ports.clocks import SystemClock
from relance.ports.tokens import Token, TokenRole
from relance.recovery.requesting import Wanted
from relance.recovery.sites import ClusterRules, Site
from relance.serving.identities import digest_of
from relance.testing.backend_contract import BackendContract, BackendStand
from relance.testing.manual_clocks import ManualClock
from tests.served.servers import serving
from tests.served.worlds import World, secret


def _world() -> World:
    rules = ClusterRules(cluster="alpha", opted_in=None, requests=frozenset(RequestKind), limits=Limits(settle_s=0))
    return World(clock=ManualClock(), site=Site(clusters=(rules,)))


def _stand(made: World, backend: Backend) -> BackendStand:
    async def settle() -> None:
        while await made.loop.tick():
            pass

    async def quarantine(node: str) -> Request:
        wanted = Wanted(verb=RequestVerb.QUARANTINE, reason="Xid 79", by="grace", for_s=86400.0)
        return await made.parts.requesting().of_node("alpha", node, wanted)

    async def set_stage(stage: Stage) -> None:
        await made.parts.commands().set_stage("alpha", None, stage, frozenset[EndRunning](), "root")

    return BackendStand(backend=backend, clock=made.clock, settle=settle, set_stage=set_stage, quarantine=quarantine)


class TestLocalBackend(BackendContract):
    @pytest.fixture
    async def stand(self) -> BackendStand:
        made = _world()
        return _stand(made, made.backend)


class TestHttpBackend(BackendContract):
    @pytest.fixture
    async def stand(self) -> AsyncIterator[BackendStand]:
        made = _world()
        await made.tokens.add_token(_token(TokenRole.AGENT))
        async with serving(made) as url, HttpBackend(url, secret(TokenRole.AGENT), SystemClock()) as backend:
            yield _stand(made, backend)

    async def test_a_token_of_another_role_is_refused(self) -> None:
        made = _world()
        await made.tokens.add_token(_token(TokenRole.VIEWER))
        async with serving(made) as url, HttpBackend(url, secret(TokenRole.VIEWER), SystemClock()) as backend:
            with pytest.raises(BackendRefusedError, match="your role does not allow this"):
                await backend.assignments("alpha")

    async def test_a_server_that_is_gone_is_unavailable(self) -> None:
        async with serving(_world()) as url:
            pass
        async with HttpBackend(url, "x", SystemClock()) as backend:
            with pytest.raises(BackendUnavailableError, match="no Relance server answers"):
                await backend.assignments("alpha")


def _token(role: TokenRole) -> Token:
    return Token(name=role.value, role=role, digest=digest_of(secret(role)), created_at=ManualClock().now())
