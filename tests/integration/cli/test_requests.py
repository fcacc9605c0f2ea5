"""The verbs by which people have something done to jobs and nodes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionEnd
from relance.domain.stages import Stage
from relance.testing import history_values as values
from tests.integration.cli.conftest import Run
from tests.served.servers import Served, served
from tests.unit.console.test_requests import made_at


@pytest.fixture
def server() -> Iterator[Served]:
    with served(made_at) as running:
        yield running


def test_a_person_is_asked_before_anything_is(run: Run) -> None:
    told = run("job", "cancel", "19", "--reason", "wrong data")
    assert told.exit_code == 2
    assert "say --yes where nobody can answer" in told.stderr
    assert json.loads(run("node", "list", "--json").stdout) == []


def test_what_is_asked_for_is_said_and_listed(run: Run) -> None:
    words = ("node", "quarantine", "n0", "--for", "4h", "--reason", "Xid 79", "--yes", "--no-wait")
    told = run(*words)
    assert told.exit_code == 0, told.output
    assert told.stdout == "quarantine node n0: asked for as admin; the controller has not told yet what came of it\n"
    listed = run("node", "list").stdout
    assert "quarantine asked for" in listed
    assert "Xid 79" in listed
    again = run(*words)
    assert again.exit_code == 5
    assert "quarantine, asked for by admin, is not settled yet" in again.stderr
    assert "cancel asked for by admin" not in run("why", "19").stdout
    run("job", "cancel", "19", "--reason", "wrong data", "--yes", "--no-wait", "--json")
    assert "cancel asked for by admin" in run("why", "19").stdout


@pytest.mark.parametrize(
    ("end", "reason", "code", "words"),
    [
        (ActionEnd.SUCCEEDED, "", 0, "cancel job 19: done as admin"),
        (ActionEnd.FAILED, "Access/permission denied", 5, "cancel job 19: failed: Access/permission denied"),
    ],
)
def test_what_comes_of_it_is_waited_for_and_shows_in_the_exit_code(
    run: Run, server: Served, end: ActionEnd, reason: str, code: int, words: str
) -> None:
    controller = threading.Thread(target=_settle, args=(server, end, reason))
    controller.start()
    told = run("job", "cancel", "19", "--reason", "wrong data", "--yes")
    controller.join()
    assert told.exit_code == code, told.output
    assert words in told.stdout


def test_where_no_controller_tells_it_is_not_waited_for_ever(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relance.cli.requests._WAIT_S", 0.2)
    told = run("job", "cancel", "19", "--reason", "wrong data", "--yes")
    assert told.exit_code == 0, told.output
    assert "has not told yet" in told.stdout


def _settle(server: Served, end: ActionEnd, reason: str) -> None:
    """A controller that tells of the first request of job 19 as soon as there is one."""
    asking, until_s = server.world.parts.requesting(), time.monotonic() + 60
    while not (asked := server.do(asking.of_jobs_record("19"))):
        assert time.monotonic() < until_s
        time.sleep(0.02)
    request = asked[0].request
    ended = e.RequestEnded(
        request_id=request.id, verb=request.verb, by=request.by, end=end, reason=reason, at=values.after(31)
    )
    server.do(server.world.append(values.job_stream("19"), ended))


def test_a_node_that_is_not_known_is_not_found(run: Run) -> None:
    told = run("node", "return", "nowhere", "--reason", "mended", "--yes")
    assert told.exit_code == 3
    assert "no node nowhere is known" in told.stderr


def test_at_observe_it_is_refused_with_a_word(run: Run, server: Served) -> None:
    server.do(server.world.parts.commands().set_stage("alpha", None, Stage.OBSERVE, None, "grace"))
    told = run("job", "cancel", "19", "--reason", "wrong data", "--yes")
    assert told.exit_code == 5
    assert "cluster alpha is at observe: below approve Relance changes nothing" in told.stderr
