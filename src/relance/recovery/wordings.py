"""How times, durations, faults and actions are said to people. Pure; the same words in CLI, console and notices."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

from relance.domain.advice import ActionEnd, ActionKind, Advice, Answer, Guard
from relance.domain.deeds import DeedState, WatchdogDeed
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.ledgers import Verb
from relance.domain.names import words
from relance.domain.verdicts import Opinion

_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_MINUTE_S = 60.0
_HOUR_S = 3600.0
_DAY_S = 86400.0
_NODES_SHOWN = 4
_LINE_CHARS = 400


def name(identifier: str) -> str:
    """A name of the code, such as a cause or a state, as words: `gpu_fell_off_the_bus` is GPU fell off the bus."""
    return words(identifier)


def visible(text: str) -> str:
    """Other people's text as it may be shown: what steers a terminal or turns the writing direction is replaced.

    Line feeds and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in _UNSEEN and char not in "\n\t" else char
        for char in text
    )


def one_line(text: str) -> str:
    """Text as one line of at most 400 characters, without what steers a terminal."""
    return " ".join(visible(text).split())[:_LINE_CHARS]


_DEEDS = {
    DeedState.WOULD: "the watchdog would have {did} attempt {number}",
    DeedState.INTENDED: "the watchdog was about to have {did} attempt {number}",
    DeedState.DONE: "the watchdog {did} attempt {number}",
    DeedState.REFUSED: "the watchdog would have {did} attempt {number}, and the scheduler refused",
    DeedState.SILENT: "the watchdog may have {did} attempt {number}: the scheduler has not answered",
    DeedState.NOT_SENT: "the watchdog was about to have {did} attempt {number}, and its last look spoke against it",
    DeedState.LOST: "the watchdog would have {did} attempt {number}, and nothing came of it",
}


def deed(told: WatchdogDeed) -> str:
    """What the watchdog did or would have done, in a line; attempts count from 1."""
    is_release = told.verb is Verb.RELEASE
    number = (told.restart_count if is_release else told.attempt.restart_count) + 1
    return _DEEDS[told.state].format(did="released" if is_release else "restarted", number=number)


def opening(guard: Guard) -> str:
    """The sentence of a guard or gate, with the time at which a no may change by itself, where that is known."""
    at = guard.ask_again_at
    if guard.answer is Answer.YES or at is None:
        return guard.reason
    at = at.astimezone(UTC)
    if f"{at:%H:%M}" in guard.reason:
        return guard.reason  # it says so itself
    return f"{guard.reason}; by itself at {at:%Y-%m-%d %H:%M:%S UTC}"


def moment(at: datetime | None, now: datetime) -> str:
    """A time in UTC: without its date on the same day, `not known` for None."""
    if at is None:
        return "not known"
    at = at.astimezone(UTC)
    if at.date() == now.astimezone(UTC).date():
        return at.strftime("%H:%M:%S UTC")
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def moment_at_site(at: datetime | None, now: datetime, zone: tzinfo | None) -> str:
    """A time in UTC, and in the site's own zone where there is one: `03:12:40 UTC (04:12 Paris)`."""
    said = moment(at, now)
    if at is None or zone is None:
        return said
    place = str(zone).rpartition("/")[2].replace("_", " ")
    return f"{said} ({at.astimezone(zone):%H:%M} {place})"


def duration(seconds: float | None) -> str:
    """Seconds in the unit that a person would use; `not known` for None."""
    if seconds is None:
        return "not known"
    size = abs(seconds)
    if size < 10:  # noqa: PLR2004 - one digit after the point is worth reading
        return f"{seconds:.1f} s"
    if size < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if size < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    if size < 2 * _DAY_S:
        return f"{seconds / _HOUR_S:.1f} h"
    return f"{seconds / _DAY_S:.1f} d"


def count(number: int, noun: str) -> str:
    """A number with its noun, `1 node` or `2 nodes`; thousands are set apart."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", " ")


def steps(number: int) -> str:
    """A step with its thousands set apart."""
    return f"{number:,}".replace(",", " ")


def nodes(names: Sequence[str]) -> str:
    """A few node names in full, many as a number and the first ones."""
    if not names:
        return "no node"
    if len(names) <= _NODES_SHOWN:
        return ", ".join(names)
    return f"{len(names)} nodes ({', '.join(names[:_NODES_SHOWN])}, ...)"


def action(advice: Advice) -> str:
    """What an advice would have done, as a phrase."""
    if advice.park:
        return "put the job back in the queue, to start later"
    match advice.action:
        case Remedy.RESTART:
            return "restart the job from its last checkpoint"
        case Remedy.RESTART_EXCLUDING:
            if advice.successor:
                return f"keep job {advice.successor}, which follows, off {nodes(advice.exclude)}"
            return f"restart the job from its last checkpoint without {nodes(advice.exclude)}"
        case Remedy.STOP:
            return "cancel the job: another try is no use" if advice.cancels_running else "stop: another try is no use"
        case Remedy.WAIT:
            return "wait until more is known"
        case Remedy.NONE:
            return "nothing"


def kind_of_action(kind: ActionKind) -> str:
    """What a transaction does, as a phrase."""
    return {
        ActionKind.RESTART: "restart",
        ActionKind.PARK: "put back in the queue with a later start",
        ActionKind.CONSTRAIN: "exclusions added to the job that is already queued",
        ActionKind.CANCEL: "cancel",
    }[kind]


def request_end(end: ActionEnd) -> str:
    """What came of what a person asked for; `failed`: refused, or accepted, or not answered, and nothing shows."""
    return {
        ActionEnd.SUCCEEDED: "done",
        ActionEnd.FAILED: "failed",
        ActionEnd.UNKNOWN: "it cannot be told whether it was done",
        ActionEnd.ABANDONED: "not done",
    }[end]


def confidence(value: float) -> str:
    """A confidence in words: high from 0.8, fair from 0.5, else low."""
    if value >= 0.8:  # noqa: PLR2004 - the words' own limits
        return "high"
    return "fair" if value >= 0.5 else "low"  # noqa: PLR2004 - the same


def opinion(said: Opinion) -> str:
    """What an outside provider said, as one line: its answer, its own words, and what came of it."""
    parts = [
        "" if said.domain is FaultDomain.UNKNOWN else said.domain.value,
        name(said.cause),
        name(said.remedy.value) if said.remedy is not None else "",
        f"points at {nodes(said.suspects)}" if said.suspects else "",
        f"confidence {confidence(said.confidence)}" if said.confidence is not None else "",
    ]
    answer = ", ".join(part for part in parts if part) or "no answer in our words"
    told = f": {said.text}" if said.text else ""
    came_of_it = said.effect or ("too late to count" if said.late else "changed nothing")
    return f"{one_line(answer + told)} ({came_of_it})"
