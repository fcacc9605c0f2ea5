from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.domain.views import Wish
from relance.domain.wishes import join_wishes, parse_wish

LIMITS = Limits()


def asked(**settings: object) -> Wish:
    return parse_wish(json.dumps({"relance": settings, "other": {"x": 1}}), LIMITS)


def test_every_setting_is_read() -> None:
    assert asked(
        mode="act", max_restarts=8, logs=["out/*.log"], workflow="llama", hang_after_s=600, progress="step (?P<step>.*)"
    ) == Wish(
        mode=Stage.ACT,
        max_restarts=8,
        logs=("out/*.log",),
        workflow="llama",
        hang_after_s=600.0,
        progress="step (?P<step>.*)",
    )


@pytest.mark.parametrize("comment", ["", "hello", '{"other": {"x": 1}}', "{not json", "17", "[1]", "x" * 5000])
def test_a_comment_that_does_not_speak_to_us_is_no_wish(comment: str) -> None:
    assert parse_wish(comment, LIMITS) == Wish()


def test_the_short_form_is_read() -> None:
    assert parse_wish("night run relance:act,restarts=4,hang=900", LIMITS) == Wish(
        mode=Stage.ACT, max_restarts=4, hang_after_s=900.0
    )


def test_the_short_form_may_leave_the_mode_out() -> None:
    assert parse_wish("relance:restarts=4", LIMITS) == Wish(max_restarts=4)


def test_what_goes_beyond_the_sites_limits_is_clipped_and_said() -> None:
    wish = asked(mode="act", max_restarts=1000, hang_after_s=1)
    assert (wish.mode, wish.max_restarts, wish.hang_after_s) == (Stage.ACT, 20, 12.0)
    assert wish.notes == (
        "max_restarts 1000 was clipped to 20, the site's limit",
        "hang_after_s 1 was clipped to 12",
    )


def test_only_sixteen_paths_are_followed() -> None:
    wish = asked(logs=[f"{number}.log" for number in range(20)])
    assert len(wish.logs) == 16
    assert wish.notes == ("logs names 20 paths; only the first 16 are followed",)


def test_a_setting_that_is_not_ours_is_ignored_and_said() -> None:
    wish = asked(mode="act", colour="red")
    assert wish.mode is Stage.ACT
    assert wish.notes == ("'colour' is not a setting of ours and was ignored",)


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({"mode": "ACT"}, "mode is 'ACT', not one of off, observe, approve, act"),
        ({"max_restarts": "8"}, "max_restarts is '8', not a whole number from 0"),
        ({"max_restarts": True}, "max_restarts is True, not a whole number from 0"),
        ({"max_restarts": -1}, "max_restarts is -1, not a whole number from 0"),
        ({"hang_after_s": float("nan")}, "hang_after_s is nan, not a number of seconds"),
        ({"hang_after_s": None}, "hang_after_s is None, not a number of seconds"),
        ({"logs": "a.log"}, "logs is not a list of paths"),
        ({"logs": ["a/**/b"]}, "logs has 'a/**/b': ** is not allowed"),
        ({"logs": [""]}, "logs has '', which is no path of at most 1024 characters"),
        ({"workflow": "a\nb"}, "workflow is 'a\\nb', not a name of at most 128 characters"),
        ({"progress": 1}, "progress is 1, not a pattern of at most 512 characters"),
    ],
)
def test_a_broken_setting_leaves_the_job_in_observe(settings: dict[str, object], note: str) -> None:
    wish = asked(**{"mode": "act", **settings})
    assert wish.mode is Stage.OBSERVE
    assert wish.notes == (note, "so the job stays in observe")


@pytest.mark.parametrize("comment", ["{relance:{mode:act}}", "'{\"relance\": {}}'", '{"relance": {"mode": "act"'])
def test_a_comment_that_lost_its_quotes_is_explained(comment: str) -> None:
    wish = parse_wish(comment, LIMITS)
    assert wish.mode is Stage.OBSERVE
    assert "#SBATCH --comment='{" in wish.notes[0]


@pytest.mark.parametrize(
    "comment", ['{"relance": 3}', "relance:", "relance:act,now", "relance:act,restarts=many", "relance" + "x" * 5000]
)
def test_other_broken_forms_leave_the_job_in_observe_too(comment: str) -> None:
    wish = parse_wish(comment, LIMITS)
    assert wish.mode is Stage.OBSERVE
    assert wish.notes


@given(st.text() | st.from_regex(r"\A\{\"relance\": ?\{.*\}\}\Z"))
def test_no_comment_raises_or_gives_more_than_the_site_allows(comment: str) -> None:
    wish = parse_wish(comment, LIMITS)
    assert wish.max_restarts is None or 0 <= wish.max_restarts <= LIMITS.restarts.in_all
    assert len(wish.logs) <= 16
    assert all("\n" not in note and len(note) < 300 for note in wish.notes)


def test_the_comment_goes_before_the_file_setting_by_setting() -> None:
    wish = join_wishes("relance:observe,restarts=2", {"mode": "act", "workflow": "w", "max_restarts": 9}, Limits())
    assert (wish.mode, wish.max_restarts, wish.workflow) == (Stage.OBSERVE, 2, "w")


def test_a_file_may_have_its_settings_below_our_name() -> None:
    assert join_wishes("", {"relance": {"mode": "act"}}, Limits()).mode is Stage.ACT


@pytest.mark.parametrize("in_file", ["it is not YAML", {"relance": 3}, {3: "x"}, {"mode": "now"}])
def test_a_broken_file_leaves_the_job_in_observe_whatever_the_comment_says(in_file: dict[str, object] | str) -> None:
    wish = join_wishes("", in_file, Limits())
    assert wish.mode is Stage.OBSERVE
    assert wish.notes


def test_a_broken_file_does_not_undo_what_the_comment_says_otherwise() -> None:
    wish = join_wishes("relance:act,restarts=2", "it is not YAML", Limits())
    assert (wish.mode, wish.max_restarts) == (Stage.OBSERVE, 2)


def test_a_broken_comment_leaves_the_job_in_observe_whatever_the_file_says() -> None:
    assert join_wishes("{relance:{mode:act}}", {"mode": "act"}, Limits()).mode is Stage.OBSERVE


def test_without_a_file_the_comment_alone_counts() -> None:
    assert join_wishes("relance:act", None, Limits()) == parse_wish("relance:act", Limits())


def test_off_is_honoured_whatever_else_is_broken() -> None:
    assert parse_wish('{"relance": {"mode": "off", "max_restarts": "x"}}', LIMITS).mode is Stage.OFF
    assert join_wishes("relance:off", "the file is a link", LIMITS).mode is Stage.OFF


def test_a_bare_off_in_a_file_is_off_although_yaml_takes_it_for_no() -> None:
    assert join_wishes("", {"mode": False}, LIMITS) == Wish(mode=Stage.OFF)


@pytest.mark.parametrize(
    "comment",
    [
        "Relance:off", "RELANCE:act", "relance: off", "relance=off", "relance off", "run7;relance:off", "x,relance:act",
        '{"Relance": {"mode": "off"}}', '{"RELANCE": "off"}', "{'relance': {'mode': 'off'}}",
    ],
)  # fmt: skip
def test_a_comment_that_means_us_in_another_spelling_leaves_the_job_in_observe(comment: str) -> None:
    wish = parse_wish(comment, LIMITS)
    assert wish.mode is Stage.OBSERVE
    assert wish.notes


@given(
    name=st.sampled_from(
        ["mode", "max_restarts", "hang_after_s", "logs", "workflow", "progress", "arm_requeue", "colour"]
    ),
    value=st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.floats(),
            st.integers(),
            st.sampled_from([1500, 24_000]).map(lambda bits: 1 << bits),  # no float; more digits than Python writes
            st.text(st.characters(exclude_categories=())),
        ),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_no_value_of_a_setting_raises_or_gives_what_cannot_be_written(name: str, value: object) -> None:
    wish = join_wishes("relance:act", {name: value}, LIMITS)
    for text in (*wish.notes, *wish.logs, wish.workflow or "", wish.progress or ""):
        assert text.encode("utf-8") is not None
    assert all(len(note) < 700 for note in wish.notes)


@pytest.mark.parametrize("digits", [300, 400, 3900])
def test_numbers_of_any_size_in_a_comment_are_clipped(digits: int) -> None:
    number = "1" + "0" * digits
    comment = f'{{"relance": {{"mode": "act", "hang_after_s": {number}}}}}'
    assert parse_wish(comment, LIMITS).hang_after_s == 7 * 86400
    assert parse_wish(comment.replace("hang_after_s", "max_restarts"), LIMITS).max_restarts == 20


@pytest.mark.parametrize(
    ("comment", "name"),
    [
        ('{"relance": {"mode": "off"}, "relance": {"mode": "act"}}', "relance"),
        ('{"relance": {"mode": "observe", "mode": "act"}}', "mode"),
    ],
)
def test_a_comment_that_says_something_twice_leaves_the_job_in_observe(comment: str, name: str) -> None:
    wish = parse_wish(comment, LIMITS)
    assert (wish.mode, wish.notes) == (
        Stage.OBSERVE,
        (f"the comment has '{name}' twice; so the job stays in observe",),
    )
    assert parse_wish('{"other": {"mode": 1, "mode": 2}}', LIMITS) == Wish()
