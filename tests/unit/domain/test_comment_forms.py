from __future__ import annotations

import pytest

from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.domain.views import Wish
from relance.domain.wishes import join_wishes, parse_wish

LIMITS = Limits()
WHOLE = '{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 4}}'


@pytest.mark.parametrize(
    "comment", [WHOLE, "{APS:{auto_resume_mode:requeue,max_requeue_times:4}}",
                "{'APS': {'auto_resume_mode': 'requeue', 'max_requeue_times': 4}}",
                '{"team": "vision", "APS": {"auto_resume_mode": "requeue", "max_requeue_times": 4}}',
                "{team:vision,APS:{auto_resume_mode:requeue,max_requeue_times:4}}"],
)  # fmt: skip
def test_the_form_of_another_engine_is_observed_until_the_site_says_that_the_engine_is_off(comment: str) -> None:
    assert parse_wish(comment, LIMITS) == Wish(mode=Stage.OBSERVE, form="aps")
    assert parse_wish(comment, LIMITS, ("aps",)) == Wish(mode=Stage.ACT, max_restarts=4, form="aps")


def test_without_a_number_the_sites_own_limit_counts_and_a_number_beyond_it_is_clipped() -> None:
    assert parse_wish("{APS:{auto_resume_mode:requeue}}", LIMITS, ("aps",)) == Wish(mode=Stage.ACT, form="aps")
    wish = parse_wish(WHOLE.replace("4", "400"), LIMITS, ("aps",))
    assert (wish.max_restarts, wish.notes) == (20, ("max_restarts 400 was clipped to 20, the site's limit",))


@pytest.mark.parametrize("accepted", [(), ("aps",)])
@pytest.mark.parametrize(
    ("comment", "note"),
    [
        ("{APS:", "cannot be read as a whole; it needs quotes: #SBATCH --comment='{"),
        ("{APS:{auto_resume_mode:requeue", "cannot be read as a whole"),
        ('{"APS": "requeue"}', "cannot be read as a whole"),
        ('{"APS": {}}', "auto_resume_mode is None, not requeue"),
        ('{"APS": {"auto_resume_mode": "always"}}', "auto_resume_mode is 'always', not requeue"),
        (WHOLE.replace("4", '"4"'), "max_requeue_times is '4', not a whole number from 0"),
        (WHOLE.replace("4", "-1"), "max_requeue_times is -1, not a whole number from 0"),
        (WHOLE.replace("4", "true"), "max_requeue_times is True, not a whole number from 0"),
    ],
)
def test_what_cannot_be_understood_of_it_is_said_and_stays_in_observe(
    comment: str, note: str, accepted: tuple[str, ...]
) -> None:
    wish = parse_wish(comment, LIMITS, accepted)
    assert (wish.mode, wish.max_restarts, wish.form) == (Stage.OBSERVE, None, "aps")
    assert note in wish.notes[0]


def test_a_chain_is_observed_and_its_owner_is_told_where_the_form_is_taken() -> None:
    chain = '{"APS": {"auto_resume_mode": "singleton_dependency"}}'
    assert parse_wish(chain, LIMITS) == Wish(mode=Stage.OBSERVE, form="aps")
    wish = parse_wish(chain, LIMITS, ("aps",))
    assert wish.mode is Stage.OBSERVE
    assert "successor goes on" in wish.notes[0]


def test_a_setting_of_that_engine_that_is_not_known_is_ignored_and_said() -> None:
    wish = parse_wish('{"APS": {"auto_resume_mode": "requeue", "colour": 1}}', LIMITS, ("aps",))
    assert (wish.mode, wish.notes) == (Stage.ACT, ("'colour' in the APS comment was ignored",))


BOTH = '{"APS": {"auto_resume_mode": "requeue"}, "relance": {"mode": "approve"}}'


def test_our_own_settings_beside_it_are_what_counts_where_the_other_engine_is_off() -> None:
    assert parse_wish(BOTH, LIMITS, ("aps",)) == Wish(mode=Stage.APPROVE)


def test_a_job_that_asks_two_engines_is_observed() -> None:
    for wish in (parse_wish(BOTH, LIMITS), join_wishes(BOTH, {"max_restarts": 2}, LIMITS)):
        assert wish.mode is Stage.OBSERVE
        assert "another engine (APS) too" in wish.notes[-1]


def test_a_file_does_not_lift_what_is_asked_of_another_engine_in_the_comment() -> None:
    assert join_wishes(WHOLE, {"mode": "act"}, LIMITS).mode is Stage.OBSERVE
    assert join_wishes(WHOLE, {"max_restarts": 9}, LIMITS, ("aps",)).max_restarts == 4


@pytest.mark.parametrize("comment", ['{"APSE": {"x": 1}}', "APS run", "{relance:{mode:act}}", '{"x": {"APS": {}}}'])
def test_other_comments_are_not_taken_for_it(comment: str) -> None:
    assert parse_wish(comment, LIMITS, ("aps",)).form == ""


@pytest.mark.parametrize("comment", ["relance:act,arm_requeue", '{"relance": {"mode": "act", "arm_requeue": true}}'])
def test_the_wish_to_be_made_fit_for_a_requeue_is_read_in_the_comment(comment: str) -> None:
    assert parse_wish(comment, LIMITS) == Wish(mode=Stage.ACT, arm_requeue=True)
    assert parse_wish("relance:arm_requeue", LIMITS) == Wish(arm_requeue=True)


def test_that_wish_in_a_file_does_not_count() -> None:
    wish = join_wishes("relance:act", {"arm_requeue": True}, LIMITS)
    assert (wish.arm_requeue, wish.mode) == (False, Stage.ACT)
    assert wish.notes == ("arm_requeue counts in the job's own comment only, not in a file",)
    assert join_wishes("relance:act,arm_requeue", {"arm_requeue": False}, LIMITS).arm_requeue


@pytest.mark.parametrize("value", ["1", '"yes"', "null"])
def test_that_wish_in_other_words_leaves_the_job_in_observe(value: str) -> None:
    wish = parse_wish(f'{{"relance": {{"mode": "act", "arm_requeue": {value}}}}}', LIMITS)
    assert (wish.mode, wish.arm_requeue) == (Stage.OBSERVE, False)
