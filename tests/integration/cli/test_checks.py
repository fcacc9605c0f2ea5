from __future__ import annotations

import json

from relance.domain.findings import Coverage, Sight
from relance.testing import history_values as values
from tests.integration.cli.conftest import Run
from tests.served.servers import Served


def test_what_is_seen_of_a_job_is_told_with_ways_to_mend_it(server: Served, run: Run) -> None:
    server.world.live.coverage[values.attempt_key("19")] = (
        Coverage(source="/home/ada/19.out", sight=Sight.REFUSED, note="cannot be read by the watcher"),
        Coverage(source="/home/ada/rank-0.log", sight=Sight.SEEN),
    )
    told = run("check", "19")
    assert told.exit_code == 0, told.output
    assert "settings:      none of its own" in told.output
    assert "/home/ada/19.out: cannot be read: cannot be read by the watcher" in told.output
    assert "/home/ada/rank-0.log: read to its end" in told.output
    assert told.output.count("\nor: ") == 2
    assert "approve (cluster is set to approve)" in told.output
    assert "if it fails, prepare a restart and wait for a person's yes" in told.output
    assert "\x1b" not in told.output


def test_a_job_with_an_incident_says_what_happens_next(run: Run) -> None:
    assert "a person must approve until" in run("check", "17").output


def test_options_may_come_before_the_job(run: Run) -> None:
    assert json.loads(run("check", "--json", "19").output)["job"]["job"]["raw_id"] == "19"
    assert json.loads(run("check", "job", "19", "--json").output)["job"]["job"]["raw_id"] == "19"


def test_a_job_that_is_not_known_is_told(run: Run) -> None:
    told = run("check", "4711")
    assert told.exit_code == 3
    assert "no job is known by '4711'" in told.output


def test_the_word_cluster_names_the_other_check(run: Run) -> None:
    told = run("check", "cluster", "--help")
    assert told.exit_code == 0
    assert "Usage: relance check cluster" in told.output.replace("main check", "relance check")
    assert "[NAME]" in told.output
