"""All stories by name, and how many of them begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from relance.domain.stages import Stage
from tests.scenarios import findings
from tests.scenarios.acts import fails, finds, submits
from tests.scenarios.timelines import Timeline

Tell = Callable[[], Timeline]


@dataclass(frozen=True, slots=True)
class Story:
    """A story; `restarts` says whether it goes the same when the server loses its memory."""

    name: str
    tell: Tell
    book: str
    restarts: bool


STORIES: dict[str, Story] = {}


def story(tell: Tell) -> Tell:
    """Remember a story by its name."""
    STORIES[tell.__name__] = Story(tell.__name__, tell, tell.__module__, restarts=True)
    return tell


def story_of_silence(tell: Tell) -> Tell:
    """Remember a story that turns on when somebody was last heard, which a new server does not know."""
    STORIES[tell.__name__] = Story(tell.__name__, tell, tell.__module__, restarts=False)
    return tell


def story_at(*seconds: int) -> Callable[[Callable[[int], Timeline]], Callable[[int], Timeline]]:
    """Remember one story for each second at which it turns."""

    def remember(tell: Callable[[int], Timeline]) -> Callable[[int], Timeline]:
        for second in seconds:
            name = f"{tell.__name__}_at_{second}"
            STORIES[name] = Story(name, partial(tell, second), tell.__module__, restarts=True)
        return tell

    return remember


def crashed(stage: Stage = Stage.ACT, until_s: float = 200) -> Timeline:
    """A job that runs for a minute and then loses a rank."""
    line = Timeline(stage=stage, until_s=until_s)
    line.at(0, submits())
    line.at(60, finds(lambda attempt, world: findings.killed_rank(attempt, world.now)), fails(exit_code=137))
    return line
