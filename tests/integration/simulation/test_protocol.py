from __future__ import annotations

import json
import re
import socket

from relance.simulation import protocols
from relance.simulation.operations import Operations
from tests.integration.simulation.clusters import SLEEP, RunningCluster


def test_rows_have_exactly_the_fields_that_are_written_down(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP)
    (attempt,) = cluster.attempts(job_id)
    assert set(cluster.job(job_id)) == set(protocols.JobRow.__annotations__)
    assert set(attempt) == set(protocols.AttemptRow.__annotations__)
    assert set(attempt["steps"][0]) == set(protocols.StepRow.__annotations__)
    assert set(cluster.node("node001")) == set(protocols.NodeRow.__annotations__)
    assert set(cluster.ask("info")["info"]) == set(protocols.Info.__annotations__)


def test_every_operation_is_written_down() -> None:
    operations = {name.removeprefix("op_") for name in dir(Operations) if name.startswith("op_")}
    text = protocols.__doc__ or ""
    assert {name for name in operations if not re.search(rf"^    (\w+, )*{name}\b", text, re.MULTILINE)} == set()


def test_a_line_that_is_not_json_gets_an_answer_and_the_connection_goes_on(cluster: RunningCluster) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(cluster.state_dir / protocols.SOCKET_NAME))
        peer.settimeout(5)
        with peer.makefile("rwb") as lines:
            lines.write(b'not json\n[1]\n{"op": "info"}\n')
            lines.flush()
            answers = [json.loads(lines.readline()) for _ in range(3)]
    assert answers[0] == {"ok": False, "error": "not JSON"}
    assert answers[1] == {"ok": False, "error": "not a JSON object"}
    assert answers[2]["ok"]
