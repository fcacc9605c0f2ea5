from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.stages import Stage
from relance.domain.streams import Stream
from relance.ports.tokens import TokenRole
from relance.testing import history_values as values
from tests.served.worlds import World, report, world

LACKS = ("a failed job is forgotten too soon; MinJobAge=3600 in slurm.conf", "nobody can tell who decided")


async def _unfit(stage: Stage, *, may_act: bool = True, lacks: tuple[str, ...] = LACKS) -> World:
    made = await world(stage)
    shown = report(made)
    facts = replace(shown.facts, may_act=may_act, lacks=lacks)
    await made.history.put_report(replace(shown, facts=facts, sequence=2), made.clock.now())
    await made.append(Stream.of_cluster("beta"), values.stage_set("beta", Stage.OBSERVE))
    return made


@pytest.mark.parametrize("stage", ["approve", "act"])
async def test_a_stage_that_acts_is_refused_with_every_reason(stage: str) -> None:
    made = await _unfit(Stage.OBSERVE)
    async with made.client(TokenRole.ADMIN) as client:
        answer = await client.put("/api/v1/stages", json={"stage": stage, "cluster": "alpha"})
        shown = (await client.get("/api/v1/stages")).json()
    assert answer.status_code == 409
    message = answer.json()["error"]["message"]
    assert message.startswith(f"cluster alpha is not fit for {stage}: (1) a failed job is forgotten too soon")
    assert "MinJobAge=3600 in slurm.conf" in message
    assert "(2) nobody can tell who decided." in message
    assert {row["cluster"]: row["setting"]["stage"] for row in shown} == {"alpha": "observe", "beta": "observe"}


async def test_one_unfit_cluster_keeps_all_from_being_set() -> None:
    made = await _unfit(Stage.OBSERVE)
    async with made.client(TokenRole.ADMIN) as client:
        assert (await client.put("/api/v1/stages", json={"stage": "act"})).status_code == 409
        assert (await client.put("/api/v1/stages", json={"stage": "act", "cluster": "beta"})).status_code == 200


async def test_a_partition_is_refused_too() -> None:
    made = await _unfit(Stage.OBSERVE, may_act=False, lacks=())
    async with made.client(TokenRole.ADMIN) as client:
        asked = {"stage": "act", "cluster": "alpha", "partition": "gpu"}
        answer = await client.put("/api/v1/stages", json=asked)
    assert "may not act on other users' jobs" in answer.json()["error"]["message"]


async def test_lowering_is_never_refused() -> None:
    made = await _unfit(Stage.ACT)
    async with made.client(TokenRole.OPERATOR) as client:
        for stage in ("approve", "observe", "off"):
            assert (await client.put("/api/v1/stages", json={"stage": stage, "cluster": "alpha"})).status_code == 200
