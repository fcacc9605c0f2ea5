"""People who do something to their job in the middle of a recovery, on a real Slurm: their wish stands, and is told.

A shim lets one command of the transaction wait, before it is sent or before its answer comes, so that what the person
does lands exactly between two of our calls. What is judged is what Slurm shows afterwards.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.measures import Limit, Result
from bench.shims import Fault, Kind
from bench.slurm_lanes import Lane, lanes, side_by_side, stays, until
from relance.recovery.stories import Entry

_LANES = 3
_PAUSE_S = 60.0
_TOLD_S = 60.0
_STAYS_S = 6.0
_HAND_S = 7.0
"""Less than the shim waits."""
_HANG = '{"relance": {"hang_after_s": 3}}'
_LATER = '{"relance": {"hang_after_s": 20}}'
_ENDING_STEPS = 40
"""A training that soon completes once it is let go on."""
_TELLING = frozenset({"OutsideChangeSeen", "ActionAbandoned", "ActionFailed", "ActionSucceeded", "IncidentClosed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """What somebody does, and what has to come of it."""

    name: str
    hand: Callable[[Lane, int], None]
    ends_as: str
    """The state that Slurm shows afterwards."""
    attempts: int
    """The most attempts that have begun."""
    word: str
    """What the story has to name."""
    pause: Fault | None = None
    comment: str = ""
    """With a wish the attempt runs, and hangs; without one a rank is killed."""
    steps: int = 3000
    runs: int = 3


def _cancel(lane: Lane, job: int) -> None:
    lane.site.trainings.cancel(job)


def _cancel_when_pending(lane: Lane, job: int) -> None:
    until(lambda: lane.site.state(job) == "PENDING", _HAND_S, "the requeued job")
    _cancel(lane, job)


def _cancel_when_running(lane: Lane, job: int) -> None:
    def is_new() -> bool:
        row = lane.site.trainings.job(job)
        return bool(row["restart_count"] == 1 and row["state"] == "RUNNING")

    until(is_new, _TOLD_S, "the new attempt")
    _cancel(lane, job)


def _complete(lane: Lane, job: int) -> None:
    lane.site.trainings.continue_rank(job, 1)
    until(lambda: lane.site.state(job) == "COMPLETED", _HAND_S, "the end of the training")


def _heal(lane: Lane, job: int) -> None:
    until(lambda: bool(lane.site.incidents(job)), _TOLD_S, "the suspicion")
    _complete(lane, job)


def _requeue(lane: Lane, job: int) -> None:
    lane.cluster.must(lane.site.owner, ["scontrol", "requeue", str(job)])


def _requeue_as_root(lane: Lane, job: int) -> None:
    lane.cluster.must("root", ["scontrol", "requeue", str(job)])


def _start(lane: Lane, job: int) -> None:
    until(lambda: lane.site.state(job) == "PENDING", _HAND_S, "the requeued job")
    stays(lambda: True, 1.2)  # a start sooner than that may die at launch
    lane.cluster.must("root", ["scontrol", "update", f"JobId={job}", "StartTime=now"])
    until(lambda: lane.site.state(job) == "RUNNING", _HAND_S, "the start by hand")


def _hold(lane: Lane, job: int) -> None:
    until(lambda: lane.site.state(job) == "PENDING", _HAND_S, "the requeued job")
    lane.cluster.must(lane.site.owner, ["scontrol", "hold", str(job)])


def _at(operation: str, kind: Kind) -> Fault:
    return Fault(operation=operation, number=1, kind=kind)


BEFORE_REQUEUE, AFTER_REQUEUE = _at("requeue", Kind.PAUSE_BEFORE), _at("requeue", Kind.PAUSE_AFTER)
BEFORE_UPDATE, AFTER_UPDATE = _at("update", Kind.PAUSE_BEFORE), _at("update", Kind.PAUSE_AFTER)
PEOPLE: Sequence[Person] = (
    Person(
        name="cancels a running attempt before our requeue",
        hand=_cancel, ends_as="CANCELLED", attempts=1, word="cancel", pause=BEFORE_REQUEUE, comment=_HANG,
    ),
    Person(
        name="cancels between requeue and update",
        hand=_cancel_when_pending, ends_as="CANCELLED", attempts=1, word="cancel", pause=AFTER_REQUEUE, runs=2,
    ),
    Person(
        name="cancels between requeue and update of what ran",
        hand=_cancel_when_pending, ends_as="CANCELLED", attempts=1, word="cancel", pause=AFTER_REQUEUE, comment=_HANG,
        runs=2,
    ),
    Person(
        name="cancels what ran while our requeue ends it",
        hand=_cancel, ends_as="CANCELLED", attempts=1, word="cancel", pause=AFTER_REQUEUE, comment=_HANG, runs=2,
    ),
    Person(
        name="cancels just before our update",
        hand=_cancel, ends_as="CANCELLED", attempts=1, word="cancel", pause=BEFORE_UPDATE,
    ),
    Person(
        name="cancels after our update",
        hand=_cancel, ends_as="CANCELLED", attempts=2, word="cancel", pause=AFTER_UPDATE,
    ),
    Person(
        name="cancels just after the start",
        hand=_cancel_when_running, ends_as="CANCELLED", attempts=2, word="cancel",
    ),
    Person(
        name="sees it complete before our requeue",
        hand=_complete, ends_as="COMPLETED", attempts=1, word="completed", pause=BEFORE_REQUEUE, comment=_HANG,
        steps=_ENDING_STEPS,
    ),
    Person(
        name="sees it go on and complete while it is suspected",
        hand=_heal, ends_as="COMPLETED", attempts=1, word="", comment=_LATER, steps=_ENDING_STEPS, runs=2,
    ),
    Person(
        name="requeues before our requeue",
        hand=_requeue, ends_as="RUNNING", attempts=2, word="requeue", pause=BEFORE_REQUEUE, runs=2,
    ),
    Person(
        name="requeues before our requeue, as root",
        hand=_requeue_as_root, ends_as="RUNNING", attempts=2, word="requeue", pause=BEFORE_REQUEUE, runs=1,
    ),
    Person(
        name="starts it by hand between requeue and update",
        hand=_start, ends_as="RUNNING", attempts=2, word="runs", pause=AFTER_REQUEUE, runs=2,
    ),
    Person(
        name="holds it between requeue and update",
        hand=_hold, ends_as="PENDING", attempts=1, word="held", pause=AFTER_REQUEUE, runs=2,
    ),
    Person(
        name="holds it just before our update",
        hand=_hold, ends_as="PENDING", attempts=1, word="held", pause=BEFORE_UPDATE, runs=2,
    ),
)  # fmt: skip
"""32 runs in all."""


@dataclass(slots=True)
class Findings:
    """What came out, from all lanes."""

    runs: Counter[str] = field(default_factory=Counter)
    crossed: list[str] = field(default_factory=list)
    """Runs in which our action revived or killed the job, or did not leave it as the person had."""
    untold: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def measure(*, quick: bool) -> Result:
    """All runs; when quick one of each kind."""
    found = Findings()
    runs = [person for person in PEOPLE for _ in range(1 if quick else person.runs)]
    with lanes(_LANES) as made:
        side_by_side(made, runs, lambda lane, person: _kept(lane, person, found))
    count = sum(found.runs.values())
    return Result(
        name="slurm_people",
        measure="cancelled, completed, requeued, started or held by a person in any step of a recovery, real Slurm",
        limits=(
            _limit("runs in which our action revives or kills it", found.crossed, count),
            _limit("runs in which it is not told", found.untold, count),
        ),
        figures={"runs": count, "each": dict(found.runs)},
        wrong=(*found.crossed, *found.untold, *found.broken),
        conditions=(
            "a private Slurm, polls every 0.5 s, settle 1 s; the command beside which the person acts waits until that "
            "is done, for up to 8 s"
        ),
    )


def _limit(name: str, wrong: Sequence[str], count: int) -> Limit:
    return Limit(name=name, value=len(wrong) if count else None, most=0, unit="")


def _kept(lane: Lane, person: Person, found: Findings) -> None:
    broken, crossed, untold = "", "", ""
    try:
        crossed, untold = run(lane, person)
    except Exception as error:  # noqa: BLE001 -- a bench reports what happened
        broken = f"{type(error).__name__}: {error}"
    with found.lock:
        found.runs[person.name] += 1
        for kept, sentence in ((found.crossed, crossed), (found.untold, untold), (found.broken, broken)):
            if sentence:
                kept.append(f"{person.name}: {sentence}")


def run(lane: Lane, person: Person) -> tuple[str, str]:
    """Let a person act; gives how our action crossed it, and what is not told: empty sentences when all is well."""
    job = lane.submit(comment=person.comment, steps=person.steps)
    lane.watch(job, person.pause)
    if person.comment:
        lane.site.trainings.stop_rank(job, 1)
    else:
        lane.site.trainings.kill_rank(job, 1)
    if person.pause is not None:
        until(lambda: lane.shims.is_paused, _PAUSE_S, f"the call {person.pause.name}")
    try:
        person.hand(lane, job)
    finally:
        lane.shims.go_on()
    told = _told(lane, job, person.word)
    crossed = _crossed(lane, job, person)
    untold = "" if told else f"nothing names it: {'; '.join(entry.title for entry in _entries(lane, job)[-6:])}"
    lane.clear(job)
    return crossed, untold


def _told(lane: Lane, job: int, word: str) -> bool:
    """Whether the story of the job names what the person did, once the incident is over or a person has to go on."""

    def is_told() -> bool:
        entries = _entries(lane, job)
        ended = all(item.end is not None for item in lane.site.incidents(job)) if not word else True
        return ended and any(word in f"{each.title} {each.detail}".lower() for each in entries)

    try:
        return until(is_told, _TOLD_S, "what is told")
    except Exception:  # noqa: BLE001 -- that it is not told is a finding, whatever the reason
        return False


def _entries(lane: Lane, job: int) -> list[Entry]:
    stories = [lane.site.client.incident_story(item.id) for item in lane.site.incidents(job)]
    return [entry for story in stories for entry in story.entries if entry.event in _TELLING]


def _crossed(lane: Lane, job: int, person: Person) -> str:
    """How the job is not as the person left it; empty when it is, and stays so."""

    def is_as_left() -> bool:
        return lane.site.state(job) == person.ends_as

    limit_s = _TOLD_S if person.ends_as == "RUNNING" else 1.0
    try:
        until(is_as_left, limit_s, person.ends_as)
    except Exception:  # noqa: BLE001 -- the sentence below says how it is
        return _shown(lane.fields(job))
    if not stays(is_as_left, _STAYS_S):
        return _shown(lane.fields(job))
    # Accounting gives a start to what was cancelled in the second of its requeue; only what had nodes has begun.
    begun = [row for row in lane.site.trainings.attempts(job) if row["nodes"]]
    return "" if len(begun) <= person.attempts else f"{len(begun)} attempts have begun"


def _shown(fields: Mapping[str, str]) -> str:
    return f"it is {fields['JobState']} ({fields.get('Reason')}), restart count {fields.get('Restarts')}"
