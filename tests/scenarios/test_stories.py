"""Each story goes as told; and it goes the same when the server loses its memory, at every second or at any one."""

from __future__ import annotations

import pytest

from tests.scenarios import approval_stories, chain_stories, crash_stories, fleet_stories, hang_stories, people_stories
from tests.scenarios.storybooks import STORIES

_BOOKS = (approval_stories, chain_stories, crash_stories, fleet_stories, hang_stories, people_stories)
_RESTARTED = [name for name, story in STORIES.items() if story.restarts]
_TURNING_SECONDS = 24
"""In most stories everything happens within this time of the crash."""


@pytest.mark.parametrize("name", STORIES)
async def test_the_story_goes_as_told(name: str) -> None:
    await STORIES[name].tell().play()


@pytest.mark.parametrize("name", _RESTARTED)
async def test_it_goes_the_same_with_a_new_server_every_second(name: str) -> None:
    line = STORIES[name].tell()
    await line.play(restarted_at=lambda _second: True)
    assert line.world.restarts == line.until_s + 1


@pytest.mark.parametrize("second", range(58, 58 + _TURNING_SECONDS))
async def test_a_restart_at_any_second_of_the_crash_changes_nothing(second: int) -> None:
    await STORIES["a_killed_rank_becomes_a_running_job_again"].tell().play(restarted_at=lambda now: now == second)


@pytest.mark.parametrize(
    "second",
    [pytest.param(58 + after, marks=[pytest.mark.soak] if after % 3 else []) for after in range(_TURNING_SECONDS)],
)
async def test_a_restart_at_any_second_around_an_approval_changes_nothing(second: int) -> None:
    """Each third second; the others are for the soak."""
    await STORIES["an_approved_restart_begins"].tell().play(restarted_at=lambda now: now == second)


def test_every_storybook_has_stories() -> None:
    assert {story.book for story in STORIES.values()} == {book.__name__ for book in _BOOKS}
