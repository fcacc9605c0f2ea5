"""The contract of `relance.ports.backends.Backend`, as tests that every implementation runs.

A test class of one's own inherits from `BackendContract` and has a fixture `stand`: a new server that serves the
cluster `alpha`, whose jobs are all opted in, where people may ask for everything, and whose settle time is 0, with the
shipped rules of traces, seen through the backend under test. Tests are coroutines: pytest-asyncio in automatic mode, or
a plug-in like it.
"""

from __future__ import annotations

from relance.testing.backend_contract_actions import ActionContract
from relance.testing.backend_contract_deeds import DeedContract
from relance.testing.backend_contract_evidence import EvidenceContract
from relance.testing.backend_contract_requests import RequestContract
from relance.testing.backend_contract_sights import SightContract
from relance.testing.backend_stands import BackendStand

__all__ = ["BackendContract", "BackendStand"]


class BackendContract(SightContract, ActionContract, EvidenceContract, DeedContract, RequestContract):
    """Everything that a backend promises to the agents."""
