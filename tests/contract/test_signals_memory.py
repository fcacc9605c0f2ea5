from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_signals import MemorySamples, MemorySignalSource
from relance.testing.signal_contract import POLL_S, Measure, SignalContract

RULES = load_pack({"metrics.yaml": read_texts()["metrics.yaml"]}).metrics


class MemoryStage:
    """Nodes that are measured in memory."""

    def __init__(self) -> None:
        self._samples = MemorySamples()
        self._clock = ManualClock()

    async def open(self) -> MemorySignalSource:
        return MemorySignalSource(self._samples, self._clock, RULES, poll_s=POLL_S)

    async def measure(self, samples: Sequence[Measure]) -> None:
        for each in samples:
            self._samples.put(each.node, each.name, each.value, self._clock.now(), **each.labels)

    async def lose(self) -> None:
        self._samples.trouble = "nobody is there"

    async def find(self) -> None:
        self._samples.trouble = ""

    async def pass_time(self, duration_s: float) -> None:
        self._clock.advance(duration_s)

    def now(self) -> datetime:
        return self._clock.now()


class TestMemorySignals(SignalContract):
    @pytest.fixture
    def stage(self) -> MemoryStage:
        return MemoryStage()
