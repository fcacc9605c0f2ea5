"""A real Slurm that takes tokens: what an account may do by one, and what is answered to one that has expired."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.slurm import commands
from relance.slurm.errors import SilentError
from relance.slurm.parsing.replies import checked
from relance.slurm.running import Commands, Output, new_mark, run
from relance.slurm.tokens import Token, read_token
from tests.integration.access.stands import until

LIMIT_S = 20.0


@pytest.mark.soak
async def test_a_token_says_who_asks_and_an_expired_one_is_never_taken_for_a_refusal(
    private_slurm: Callable[[ClusterPlan], RunningCluster], tmp_path_factory: pytest.TempPathFactory
) -> None:
    key = tmp_path_factory.mktemp("jwt") / "key"
    key.write_bytes(secrets.token_bytes(32))
    key.chmod(0o600)
    lines = ("AuthAltTypes=auth/jwt", f"AuthAltParameters=jwt_key={key}")
    cluster = private_slurm(ClusterPlan(node_count=1, extra_lines=lines))
    owner, operator = cluster.plan.owners[0], cluster.plan.operator
    job = str(cluster.submit(owner, "#!/bin/sh\nexit 3\n"))
    cluster.wait_for_state(job, {"FAILED"})
    path = key.with_name("token")

    def give(user: str, lifespan_s: int) -> Token:
        path.write_text(cluster.must("root", ["scontrol", "token", f"username={user}", f"lifespan={lifespan_s}"]))
        path.chmod(0o600)
        return read_token(str(path))

    async def ask(argv: tuple[str, ...]) -> Output:
        asked = Commands(slurm_conf=cluster.slurm_conf, token_file=str(path))
        return await run(asked, argv, time_limit_s=LIMIT_S)

    assert (give(cluster.plan.owners[1], 600).left_s(0) or 0) > 0
    assert (await ask(commands.requeue(job))).stderr.startswith("Access/permission denied")
    give(operator, 600)
    assert checked(await ask(commands.requeue(job))) == b""
    cluster.wait_for_state(job, {"PENDING", "RUNNING", "FAILED"})
    token = give(operator, 1)
    until(lambda: int(cluster.must("root", ["date", "+%s"])) > (token.expires_s or 0) + 1, "its end")
    for argv in (commands.settings(), commands.glance(mark=new_mark()), commands.requeue(job), commands.cancel(job)):
        with pytest.raises(SilentError):
            checked(await ask(argv))
