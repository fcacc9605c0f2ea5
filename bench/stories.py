"""What the story of an action has to tell: its end, and each step once and in order."""

from __future__ import annotations

from bench.sites import Site, TooLateError, until
from relance.recovery.rows import IncidentItem

_ORDER = ("checked", "requeue", "pending", "constrain", "read back")
_END_S = 60.0


def story_gaps(site: Site, incident: IncidentItem, *, asked_again: bool = False) -> list[str]:
    """What the story of an action lacks, or tells twice, or out of order.

    Args:
        site: Where it happened.
        incident: The incident of the action.
        asked_again: Whether an answer was lost or the controller died: then what was asked again is told again.
    """
    story = site.client.incident_story(incident.id)
    if story.action is None:
        return ["the story has no action"]
    wrong = []
    try:  # an incident may be over, by its progress, before the transaction has read back all that it waits for
        until(lambda: _has_end(site, incident), _END_S, "the end of the action")
    except TooLateError:
        wrong.append("the action has no end in the story")
    story = site.client.incident_story(incident.id)
    if story.action is not None and len(set(story.action.steps)) != len(story.action.steps):
        wrong.append("a step is told twice")
    steps = [entry.title.removeprefix("Step: ") for entry in story.entries if entry.event == "ActionStepped"]
    once = [step for step in _ORDER if step in steps]
    firsts = sorted(once, key=steps.index)
    if firsts != once:
        wrong.append(f"steps out of order: {', '.join(steps)}")
    twice = sorted({step for step in steps if step in _ORDER and steps.count(step) > 1})
    if twice and not asked_again:
        wrong.append(f"told twice: {', '.join(twice)}")
    return wrong


def _has_end(site: Site, incident: IncidentItem) -> bool:
    action = site.client.incident_story(incident.id).action
    return action is not None and action.end is not None
