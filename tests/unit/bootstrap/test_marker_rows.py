from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.bootstrap.proofs.facts import Failure
from relance.bootstrap.proofs.marker_rows import Delivered, Marked, Sent, Written, marker_rows, read_line
from relance.bootstrap.proofs.rows import Level, Row
from relance.config.sources import LogStoreSettings
from relance.controllers.slurm.markers import submission
from relance.domain.views import JobState
from relance.ports.schedulers import SchedulerRefusedError
from tests.unit.bootstrap.spoken_stores import NOW, job

MARK = "0123456789abcdef"
SENT = Sent(mark=MARK, cluster="alpha", raw_id="17", submitted_at=NOW)
LOKI = LogStoreSettings(kind="loki", url="http://127.0.0.1:3100")
DONE = job(state=JobState.COMPLETED, nodes=("gpu001",), log_paths=("/data/17.out",))


def came(after_s: float = 3.0, *, written_s: float = 2.0, node_label: str = "gpu001") -> Delivered:
    """A line of gpu001, written and seen so many seconds after the submission."""
    at_s = NOW.timestamp() + written_s
    labels = {"job_id": "17", **({"node": node_label} if node_label else {})}
    return Delivered(
        at=NOW + timedelta(seconds=after_s), written=Written(at_s, "gpu001"), stamped_s=at_s, labels=labels
    )  # fmt: skip


def rows(*, settings: LogStoreSettings = LOKI, **changes: object) -> dict[tuple[str, str], Row]:
    plain: dict[str, object] = {
        "sent": SENT, "view": DONE, "found": {"loki": came()}, "failures": {}, "astray": {}, "waited_s": 300.0,
    }  # fmt: skip
    marked = Marked(**(plain | changes))  # type: ignore[arg-type] # fields of many types
    return {(row.source, row.name): row for row in marker_rows(marked, (settings,), with_files="files" in marked.found)}


def test_a_line_is_known_by_its_mark_alone() -> None:
    line = f"[rank0] relance-marker {MARK} 1796040000.123456789 gpu001".encode()
    assert read_line(line, MARK) == Written(1796040000.123456789, "gpu001")
    assert read_line(line, "f" * 16) is None
    assert read_line(b"relance-marker " + MARK.encode(), MARK) is None
    assert read_line(f"relance-marker {MARK} 1796040000 ".encode(), MARK) == Written(1796040000.0, "")


def test_a_line_in_time_and_of_its_node_is_fit() -> None:
    found = rows()
    assert {row.level for row in found.values()} == {Level.OK}
    assert found["loki", "marker"].read == "1.0 s after it was written"
    assert found["scheduler", "marker"].read == "job 17 on gpu001"


def test_a_line_later_than_the_settings_allow_gives_the_setting() -> None:
    late = rows(found={"loki": came(42.0)})["loki", "marker"]
    assert (late.level, late.remedy[:13]) == (Level.WARN, "set delay_s: ")
    assert "set delay_s: 80 " in late.remedy


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("gpu001.example.org", 'set node_value: "{node}.example.org"'),
        ("loghost", "set node_label to the label"),
        ("", "set node_label to one of: job_id"),
    ],
)
def test_a_line_of_another_node_s_name_is_red(value: str, words: str) -> None:
    told = rows(found={"loki": came(node_label=value)})["loki", "node of marker"]
    assert told.level is Level.BAD
    assert words in told.remedy


def test_a_time_that_the_store_made_up_is_told() -> None:
    told = rows(found={"loki": replace(came(9.0), stamped_s=NOW.timestamp() + 8.5)})["loki", "its time"]
    assert (told.level, told.read) == (Level.WARN, "+6.5 s")


@pytest.mark.parametrize(
    ("written_s", "words"), [(30.0, "at least 27 s ahead of ours"), (-30.0, "at least 30 s behind ours")]
)
def test_a_node_s_clock_that_cannot_be_right_is_red(written_s: float, words: str) -> None:
    told = rows(found={"loki": came(written_s=written_s)})["scheduler", "clock of the node"]
    assert told.level is Level.BAD
    assert words in told.means


def test_a_line_that_went_astray_gives_the_label_that_has_the_job() -> None:
    astray = {"loki": {"app": "slurm", "job": "slurm-17", "host": "gpu001"}}
    told = rows(found={}, astray=astray)["loki", "marker"]
    assert (told.level, told.remedy) == (Level.BAD, 'set job_label: job and job_value: "slurm-{raw_id}"')
    nameless = rows(found={}, astray={"loki": {"app": "slurm"}})["loki", "marker"]
    assert nameless.remedy == "have the shipper set a label with the job's id"


def test_a_store_that_fails_and_one_that_has_nothing_are_told_apart() -> None:
    failed = rows(found={}, failures={"loki": Failure(why="HTTP 401", remedy="see the tenant")})["loki", "marker"]
    assert (failed.means, failed.remedy) == ("HTTP 401", "see the tenant")
    silent = rows(found={})["loki", "marker"]
    assert silent.level is Level.BAD
    assert "did not come within 5 min" in silent.means


def test_what_was_asked_for_is_shown_as_the_store_was_asked() -> None:
    named = LOKI.model_copy(update={"job_value": "{cluster}/{raw_id}"})
    assert rows(found={}, settings=named)["loki", "marker"].read == 'job_id="alpha/17"'


def test_a_job_that_did_not_start_says_why_the_scheduler_waits() -> None:
    waiting = job(state=JobState.PENDING, started_at=None, nodes=(), reason="Resources")
    told = rows(view=waiting, found={})["scheduler", "marker"]
    assert told.level is Level.BAD
    assert "did not start within 5 min (Resources), and was taken back" in told.means


def test_a_job_that_its_deadline_took_away_did_not_start_whatever_times_the_scheduler_shows() -> None:
    gone = replace(DONE, state=JobState.DEADLINE, nodes=(), reason="DeadLine")
    assert "did not start within" in rows(view=gone, found={})["scheduler", "marker"].means


def test_a_job_that_failed_is_red_only_where_no_line_came() -> None:
    failed = replace(DONE, state=JobState.FAILED)
    assert rows(view=failed, found={})["scheduler", "marker"].level is Level.BAD
    assert rows(view=failed)["scheduler", "marker"].level is Level.WARN


@pytest.mark.parametrize(
    ("mark", "options"),
    [
        ("$(id)", {}),
        (MARK, {"partition": "gpu --uid=0"}),
        (MARK, {"partition": "--uid"}),
        (MARK, {"output": "here.out"}),
        (MARK, {"output": "/tmp/a\nb"}),
    ],
)
def test_nothing_enters_the_command_that_does_not_belong_there(mark: str, options: dict[str, str]) -> None:
    with pytest.raises(SchedulerRefusedError):
        submission(mark, 300.0, **options)


def test_the_job_is_small_and_goes_away_by_itself() -> None:
    argv = submission(MARK, 300.0, partition="gpu", output="/data/%j.out")
    assert {"--time=1", "--deadline=now+360", "--no-requeue", "--comment=relance:off", "--ntasks=1"} <= set(argv)
    assert {"--partition=gpu", "--output=/data/%j.out"} <= set(argv)
