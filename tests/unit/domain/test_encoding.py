"""Values to JSON and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from relance.domain import events as e
from relance.domain.encoding import EncodingError, decode, encode, to_json
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Activity, Attachment, DevicePicture
from relance.domain.stages import EndRunning, Stage, StageSetting
from relance.domain.verdicts import CaseFile

AT = datetime(2026, 5, 2, 11, 0, 0, 123_456, tzinfo=UTC)
JOB = JobKey(cluster="alpha", raw_id="17", submitted_at=AT)
SET = e.StageSet(
    cluster="alpha",
    setting=StageSetting(stage=Stage.ACT, end_running=frozenset({EndRunning.HANG}), set_by="ada", set_at=AT),
)


def _through(kind: object, value: object) -> object:
    return decode(kind, json.loads(json.dumps(encode(value))))


def test_an_event_comes_back_as_it_was() -> None:
    assert _through(e.Event, SET) == SET


def test_whole_numbers_stay_keys_of_mappings_and_bytes_stay_bytes() -> None:
    case = CaseFile(
        incident_id="i", attempt=AttemptKey(job=JOB, restart_count=0), as_of=AT, nodes=("n1",), rank_to_node={3: "n1"}
    )
    assert _through(CaseFile, case) == case
    attachment = Attachment(file="a.log", start_offset=7, data=b"\x00\xff")
    assert _through(Attachment, attachment) == attachment


def test_members_of_enums_are_keys_of_mappings_by_their_value() -> None:
    picture = DevicePicture(at=AT, counts={Activity.SPINNING: 7, Activity.IDLE: 1})
    assert encode(picture)["counts"] == {"spinning": 7, "idle": 1}
    assert _through(DevicePicture, picture) == picture


@pytest.mark.parametrize(
    "value",
    [
        SET,
        DevicePicture(at=AT, counts={Activity.SPINNING: 7, Activity.IDLE: 1}),
        Attachment(file="é.log", start_offset=7, data=b"\x00\xff"),
        {"places": ({3: "n1"}, frozenset({"b", "a"}), (1.5, None, True)), "none": ()},
        frozenset({Stage.ACT, Stage.OFF}),
        float("inf"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_text_written_at_once_is_that_of_the_plain_data(value: object) -> None:
    assert to_json(value) == json.dumps(encode(value), separators=(",", ":"))


def test_what_has_no_encoding_has_no_text_either() -> None:
    with pytest.raises(EncodingError):
        to_json({"a": (object(),)})


def test_times_of_any_zone_are_written_in_utc_with_microseconds() -> None:
    paris = AT.astimezone(timezone(timedelta(hours=2)))
    assert encode(paris) == "2026-05-02T11:00:00.123456Z"


def test_a_newer_writer_s_field_is_ignored_and_a_missing_one_takes_its_default() -> None:
    data = encode(SET)
    data["invented_later"] = 1
    del data["setting"]["partition"]
    assert decode(e.Event, data) == SET


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"type": "NoSuchEvent"}, id="unknown type"),
        pytest.param({"type": "StageSet", "cluster": 3, "setting": None}, id="wrong type of a field"),
        pytest.param({"type": "StageSet"}, id="missing field"),
        pytest.param([], id="a list"),
        pytest.param({"type": "StormCleared", "cluster": "a", "storm_id": "s", "by": "x", "reason": "",
                      "at": "2026-05-02T11:00:00"}, id="time without zone"),
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(data: object) -> None:
    with pytest.raises(EncodingError):
        decode(e.Event, data)


def test_a_value_without_encoding_is_refused() -> None:
    with pytest.raises(EncodingError, match="no encoding"):
        encode(object())
