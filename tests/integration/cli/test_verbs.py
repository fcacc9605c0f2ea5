from __future__ import annotations

import json
from pathlib import Path

import pytest

from relance.domain import events as e
from relance.domain.stages import HealthCap, Stage
from relance.domain.streams import Stream
from relance.ports.tokens import TokenRole
from relance.testing import history_values as values
from tests.integration.cli.conftest import Run, token_file
from tests.served.servers import Served
from tests.served.worlds import ADVICE, ASKING

SEEING = (
    ("jobs",),
    ("incidents",),
    ("incidents", "--open"),
    ("advice",),
    ("nodes",),
    ("nodes", "--all"),
    ("history",),
    ("history", "--job", "17"),
    ("history", "--after", "3", "--limit", "2"),
    ("figures",),
    ("report", "--since", "9999d"),
    ("report", "--since", "2026-01-01", "--cluster", "alpha", "--partition", "gpu"),
    ("why", "17"),
    ("explain", ASKING),
    ("mode",),
    ("mode", "--job", "17"),
    ("token", "list"),
)


@pytest.mark.parametrize("words", SEEING, ids=" ".join)
def test_every_verb_that_shows_has_a_form_for_people_and_one_for_programs(run: Run, words: tuple[str, ...]) -> None:
    told = run(*words)
    assert told.exit_code == 0, told.output
    assert told.stdout.strip()
    data = run(*words, "--json")
    assert data.exit_code == 0, data.output
    assert json.loads(data.stdout)


def test_no_verb_obeys_text_of_other_people(run: Run) -> None:
    for words in SEEING:
        told = run(*words)
        assert "\x1b" not in told.output, words
    assert "[bold]x[/bold]" in run("jobs").stdout


def test_why_gives_the_five_answers_and_the_line_that_shows_it(run: Run) -> None:
    told = run("why", "17").stdout
    assert "running:       no: attempt 1 ended as failed at 12:00:02 UTC" in told
    assert "lost:          30 steps to do again, about 30 s if it starts from its last checkpoint" in told
    assert "whose fault:   it is a node, not your code: n1 (GPU fell off the bus); confidence high" in told
    assert "  | RuntimeError: CUDA error" in told
    assert "what next:     a person must approve until 12:03:20 UTC" in told


def test_explain_tells_the_story_in_order_with_the_exact_commands(run: Run) -> None:
    told = run("explain", ADVICE).stdout
    order = ["Attempt 1 started", "Attempt 1 ended", "Crash: CUDA error", "Incident opened", "Verdict: hardware",
             "Advice 1:", "Action prepared"]  # fmt: skip
    places = [told.rindex(words) for words in order]
    assert places == sorted(places)
    assert "  $ scontrol update JobId=17 ExcNodeList=n1 StartTime=now" in told
    assert "? approval: nobody has approved this generation yet" in told


def test_an_approval_needs_a_person_or_a_yes(run: Run, server: Served) -> None:
    refused = run("approve", ASKING)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    accepted = run("approve", ASKING, "--yes", "--for", "60s")
    assert accepted.exit_code == 0, accepted.output
    assert accepted.stdout == "approved as admin, good until 12:01:30 UTC\n"
    story = server.do(server.world.parts.queries().incident_story(ASKING))
    assert story.approval is not None
    assert story.approval.by == "admin"


def test_a_denial_is_recorded_with_its_reason(run: Run, server: Served) -> None:
    assert run("deny", ADVICE, "--reason", "maintenance").exit_code == 0
    story = server.do(server.world.parts.queries().incident_story(ASKING))
    assert story.approval is not None
    assert (story.approval.yes, story.approval.reason) == (False, "maintenance")


def test_what_cannot_be_approved_is_refused_with_the_reason(run: Run) -> None:
    run("mode", "observe")
    refused = run("approve", ASKING, "--yes")
    assert refused.exit_code == 5
    assert refused.stderr.startswith("relance: there is nothing to approve: the job is at stage observe")


def test_one_command_sets_everything_to_observe(run: Run, server: Served) -> None:
    told = run("mode", "observe")
    assert told.exit_code == 0, told.output
    assert "alpha" in told.stdout
    (row,) = server.do(server.world.parts.queries().stages())
    assert row.setting is not None
    assert (row.setting.stage, row.setting.set_by) == (Stage.OBSERVE, "admin")


def test_a_partition_gets_its_stage_and_its_consents(run: Run) -> None:
    words = ("mode", "act", "--cluster", "alpha", "--partition", "gpu", "--end-running", "hang,dead_rank", "--json")
    (setting,) = json.loads(run(*words).stdout)
    assert (setting["partition"], setting["stage"]) == ("gpu", "act")
    assert setting["end_running"] == ["dead_rank", "hang"]
    told = run("mode", "--cluster", "alpha").stdout
    assert "dead_rank, hang" in told


def test_a_job_is_left_alone_and_taken_up_again(run: Run) -> None:
    assert "is at off" in run("off", "17", "--for", "4h").stdout
    assert "switched to off until 2026-03-01 16:00 UTC" in run("why", "17").stdout
    assert "is at approve" in run("off", "17", "--undo").stdout
    assert "is at observe" in run("wrong", "17", "it was my data").stdout
    assert "said to be wrong: it was my data" in run("why", "17").stdout


def test_a_storm_is_ended_by_hand(run: Run, server: Served) -> None:
    assert run("storm", "clear").exit_code == 3
    storm = e.StormOpened(cluster="alpha", storm_id="st-1", reason="file system", incidents=(), at=values.after(1))
    server.do(server.world.append(Stream.of_cluster("alpha"), storm))
    assert "storm on the whole cluster, restarts wait: file system" in run("mode").stdout
    assert "st-1" in run("storm", "list").stdout
    assert "storm on the whole cluster on alpha" in run("storm", "show").stdout
    assert run("storm", "show", "st-2").exit_code == 3
    assert run("storm", "clear", "--reason", "it is back").stdout == "the storm on alpha is cleared\n"


def test_a_token_is_made_into_a_private_file_used_and_dropped(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "grace"
    assert run("token", "add", "grace", "--role", "viewer", "--file", str(path)).stdout == f"written to {path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert run("token", "add", "grace", "--file", str(path)).exit_code == 1
    env = {"RELANCE_TOKEN_FILE": str(path)}
    assert run("jobs", env=env).exit_code == 0
    refused = run("mode", "observe", env=env)
    assert (refused.exit_code, refused.stderr.splitlines()[0]) == (5, "relance: your role does not allow this")
    assert run("token", "drop", "grace").stdout == "1 revoked\n"
    gone = run("jobs", env=env)
    assert (gone.exit_code, gone.stderr.splitlines()[0]) == (5, "relance: this needs a token")


def test_a_token_is_shown_once_when_it_goes_to_no_file(run: Run) -> None:
    told = run("token", "add", "ada", "--json")
    secret = json.loads(told.stdout)["secret"]
    assert secret.startswith("relance_")
    assert secret not in run("token", "list").output


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("why", "nobody"), 3),
        (("explain", "inc-99"), 3),
        (("why", "train"), 5),
        (("mode", "observe", "--cluster", "alfa"), 3),
        (("mode", "fly"), 2),
        (("mode", "--end-running", "hang"), 2),
        (("mode", "act", "--end-running", "boredom"), 2),
        (("mode", "act", "--job", "17", "--cluster", "alpha"), 2),
        (("off", "17", "--for", "soon"), 2),
        (("off", "17", "--for", "4h", "--undo"), 2),
        (("jobs", "--limit", "0"), 2),
        (("deny", "inc-18"), 5),
        (("nonsense",), 2),
    ],
)
def test_exit_codes_say_what_went_wrong_and_nothing_ends_in_a_traceback(
    run: Run, words: tuple[str, ...], code: int
) -> None:
    told = run(*words)
    assert told.exit_code == code, told.output
    assert told.stderr.strip()
    assert "Traceback" not in told.output
    assert told.exception is None or isinstance(told.exception, SystemExit)


def test_a_server_that_does_not_answer_is_exit_code_four(run: Run, tmp_path: Path) -> None:
    path = token_file(tmp_path / "token", TokenRole.VIEWER)
    told = run("jobs", "--server", "http://127.0.0.1:9", "--token-file", str(path))
    assert told.exit_code == 4
    assert told.stderr.startswith("relance: no Relance server answers at http://127.0.0.1:9")


def test_the_state_folders_token_is_not_shown_to_another_server(run: Run) -> None:
    told = run("jobs", "--server", "http://127.0.0.1:9")
    assert told.exit_code == 4
    assert "there is no token for http://127.0.0.1:9" in told.stderr


def test_a_token_file_that_others_can_read_is_not_used(run: Run, state: Path) -> None:
    (state / "admin-token").chmod(0o644)
    told = run("jobs")
    assert told.exit_code == 4
    assert "can be read by others" in told.stderr
    assert "chmod 600" in told.stderr


def test_without_any_server_the_remedy_is_said(tmp_path: Path, run: Run) -> None:
    told = run("jobs", env={"RELANCE_STATE_DIR": str(tmp_path / "nothing")})
    assert told.exit_code == 4
    assert "relance up" in told.stderr


@pytest.mark.parametrize(
    ("lost", "check"),
    [
        ("loki", "relance check signals --cluster alpha says what mends it"),
        ("rights", "relance check cluster alpha says what mends it"),
        ("watcher", ""),
    ],
)
def test_what_caps_the_stage_is_told_with_the_check_that_looks_at_it(
    run: Run, server: Served, lost: str, check: str
) -> None:
    cap = HealthCap(name=lost, stage=Stage.OBSERVE, reason="it does not deliver", since=values.after(1))
    server.do(server.world.append(Stream.of_cluster("alpha"), e.HealthCapped(cluster="alpha", cap=cap)))
    told = run("mode").stdout
    assert f"{lost}: it does not deliver" in told
    assert ("says what mends it" in told) == bool(check)
    assert check in told
