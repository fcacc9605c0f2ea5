"""The controller's ledger: what it took, intended, did and decided, as values, lines and a fold.

The controller writes it (`relance.controlling.ledger`), the watchdog reads it, so this is standard library only and
does no I/O. An entry is written before its command goes out and is never changed. What is not in the ledger was not
begun; what cannot be read is never taken for "nothing".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from relance.domain.advice import ActionEnd, ActionKind, Advice, Effect
from relance.domain.collecting import CollectionBegan, CollectionEnded, CollectionRecord, CollectionReported
from relance.domain.requests import RequestEntry, RequestProgress, decided_by, with_entry
from relance.domain.stages import EndRunning
from relance.domain.views import JobState

KEPT_LISTS = 3
"""So many lists of excluded nodes are kept for a job: the newest may not have been taken."""
VERSION = 1
"""Of the format. A reader that finds a newer one understands nothing and touches nothing."""


class Verb(Enum):
    """What a command does."""

    REQUEUE = "requeue"
    """Put the job back in the queue."""
    CONSTRAIN = "constrain"
    """Set exclusions and start time of the pending job."""
    CANCEL = "cancel"
    """End the job for good."""
    REQUEUE_HELD = "requeue_held"
    """Put the job back in the queue, held: the hold is ours to end."""
    RELEASE = "release"
    """End a hold of ours."""
    ARM = "arm"
    """Let the job be requeued at all, where it was submitted so that it may not."""
    REARM = "rearm"
    """Let a job that depends on this one wait for it anew, after it was told that the dependency can never be met."""


class Outcome(Enum):
    """What became of a command."""

    DONE = "done"
    """The scheduler accepted it."""
    REFUSED = "refused"
    """The scheduler refused it."""
    SILENT = "silent"
    """No answer: whether it was done is settled by looking."""
    NOT_SENT = "not_sent"
    """It was intended and, for the reason given, not sent after all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the scheduler showed when an action was prepared: commands go out only while it is so (design 10).

    `submitted_at` is of the attempt, not of the job's first one. `excluded` is the job's own list at that time, the
    user's nodes included.
    """

    raw_id: str
    restart_count: int
    submitted_at: datetime
    state: JobState
    started_at: datetime | None = None
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The first line of a ledger."""

    version: int
    cluster: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """These attempts (their keys as text) are effectively at stage `act`: ours to save, and the watchdog's after us."""

    attempts: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo:
    """These attempts are not taken any more: over, or no longer at stage `act`."""

    attempts: tuple[str, ...]
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Something was decided on this attempt, such as to stop or to leave it: the watchdog never touches it."""

    attempt: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """An action was claimed: all that is needed to finish it without the server."""

    action_id: str
    advice: Advice
    kind: ActionKind
    effect: Effect
    expected: Expected
    holder: str
    at: datetime
    consent: frozenset[EndRunning] = frozenset()
    our_exclusions: tuple[str, ...] = ()
    """Nodes that an earlier advice of ours keeps out of this job."""
    taken_over: bool = False
    """Another process had begun it: what that one sent is known only from the server and the scheduler."""
    requeued: bool = False
    """That process had requeued the job, and it shows: the attempt that waits is ours."""
    holds: bool = False
    """The requeue holds the job until its exclusions are written: there is no time for them otherwise."""
    held: bool = False
    """That process had requeued it held, and not released it as far as is known: the hold is ours to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intended:
    """A command is about to be sent. `restart_count` is what the scheduler shows when it has been done."""

    action_id: str
    number: int
    attempt: str
    advice_id: str
    generation: int
    verb: Verb
    argv: tuple[str, ...]
    restart_count: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """What became of the intended command with the same number."""

    action_id: str
    number: int
    verb: Verb
    outcome: Outcome
    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A step of an action that is no command, such as a read-back."""

    action_id: str
    number: int
    step: str
    detail: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """The nodes that a job (its key as text) is about to be kept off: those of its own list, and those that are ours.

    `owner` is the job under whose key the server keeps the exclusions: another than the job itself where it goes on in
    that one's place. A list that shows other nodes than these was written by somebody else since.
    """

    job: str
    own: tuple[str, ...]
    ours: tuple[str, ...]
    owner: str
    at: datetime

    @property
    def nodes(self) -> frozenset[str]:
        """The whole list."""
        return frozenset((*self.own, *self.ours))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """We gave this job (its key as text) a start time ahead: that wait is ours to end."""

    action_id: str
    job: str
    until: datetime
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The action is over. An end that is `unknown` may be followed by another, once looking has told."""

    action_id: str
    number: int
    end: ActionEnd
    reason: str
    at: datetime
    accepted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The server has these entries of the action."""

    action_id: str
    numbers: tuple[int, ...]
    at: datetime


Entry = (
    Opened | Taken | LetGo | Decided | Began | Intended | Did | Noted | Excluded | Parked | Ended | Reported
    | CollectionBegan | CollectionEnded | CollectionReported | RequestEntry
)  # fmt: skip
Story = Did | Noted | Ended
"""What is reported to the server, one step each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRecord:
    """An action as the ledger tells it."""

    began: Began
    intents: tuple[Intended, ...] = ()
    story: tuple[Story, ...] = ()
    reported: frozenset[int] = frozenset()
    """Numbers of the story's entries that the server has."""

    @property
    def ended(self) -> Ended | None:
        """The newest end, None while there is none."""
        return next((entry for entry in reversed(self.story) if isinstance(entry, Ended)), None)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended, or nobody knows how."""
        ended = self.ended
        return ended is None or ended.end is ActionEnd.UNKNOWN

    @property
    def unreported(self) -> tuple[Story, ...]:
        """What the server does not have yet, oldest first."""
        return tuple(entry for entry in self.story if entry.number not in self.reported)

    @property
    def next_number(self) -> int:
        """The number of the next entry, from 1."""
        return max((entry.number for entry in (*self.intents, *self.story)), default=0) + 1

    @property
    def accepted_at(self) -> datetime | None:
        """When the scheduler first accepted a command of this action."""
        return next((item.at for item in self.story if isinstance(item, Did) and item.outcome is Outcome.DONE), None)

    def answer(self, intent: Intended) -> Did | None:
        """What became of a command; None when nothing was noted any more."""
        return next((item for item in self.story if isinstance(item, Did) and item.number == intent.number), None)

    def last(self, verb: Verb) -> tuple[Intended, Did | None] | None:
        """The newest command of that kind that was not called off, with what became of it."""
        for intent in reversed(self.intents):
            answer = self.answer(intent)
            if intent.verb is verb and (answer is None or answer.outcome is not Outcome.NOT_SENT):
                return intent, answer
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState:
    """What a whole ledger comes to. Attempts and jobs are keys as text."""

    cluster: str = ""
    taken: Mapping[str, datetime] = field(default_factory=dict)
    decided: Mapping[str, Decided] = field(default_factory=dict)
    parked: Mapping[str, Parked] = field(default_factory=dict)
    exclusions: Mapping[str, tuple[Excluded, ...]] = field(default_factory=dict)
    """The newest lists of nodes that were written, or were about to be, by job; oldest first."""
    actions: Mapping[str, ActionRecord] = field(default_factory=dict)
    """Every action that is open or not wholly reported, by id."""
    collections: Mapping[str, CollectionRecord] = field(default_factory=dict)
    """Every command for evidence of which the server does not know yet what came of it, by key."""
    requests: Mapping[str, RequestProgress] = field(default_factory=dict)
    """Every person's request of which the server does not know yet what came of it, by id."""

    @property
    def open_actions(self) -> tuple[ActionRecord, ...]:
        """Actions to be finished or settled, oldest first."""
        return tuple(record for record in self.actions.values() if record.is_open)

    @property
    def unreported(self) -> tuple[tuple[Began, Story], ...]:
        """What the server does not have yet, oldest first within each action."""
        return tuple((record.began, story) for record in self.actions.values() for story in record.unreported)

    @property
    def left_to_the_watchdog(self) -> frozenset[str]:
        """Attempts that the watchdog may save when we are dead: taken, and nothing decided on them (design 11)."""
        return frozenset(self.taken) - frozenset(self.decided)


def fold(entries: Iterable[Entry]) -> LedgerState:
    """The state that these entries come to, from the first."""
    state = LedgerState()
    for entry in entries:
        state = apply(state, entry)
    return state


def apply(state: LedgerState, entry: Entry) -> LedgerState:  # noqa: PLR0911 - one case per entry
    """The state after one more entry. An entry of an action that is not known changes nothing."""
    if isinstance(entry, RequestEntry):
        return _apply_to_request(state, entry)
    match entry:
        case Opened():
            return replace(state, cluster=entry.cluster)
        case Taken():
            return replace(state, taken={**state.taken, **dict.fromkeys(entry.attempts, entry.at)})
        case LetGo():
            gone = frozenset(entry.attempts)
            return replace(state, taken={key: at for key, at in state.taken.items() if key not in gone})
        case Decided():
            return replace(state, decided={**state.decided, entry.attempt: entry})
        case Excluded():
            lists = (*state.exclusions.get(entry.job, ()), entry)[-KEPT_LISTS:]
            return replace(state, exclusions={**state.exclusions, entry.job: lists})
        case Parked():
            return replace(state, parked={**state.parked, entry.job: entry})
        case Began():
            known = state.actions.get(entry.action_id) or ActionRecord(began=entry)
            return replace(state, actions={**state.actions, entry.action_id: known})
        case Intended() | Did() | Noted() | Ended() | Reported():
            return _apply_to_action(state, entry)
        case CollectionBegan() | CollectionEnded() | CollectionReported():
            return replace(state, collections=_collections(state.collections, entry))


def _apply_to_request(state: LedgerState, entry: RequestEntry) -> LedgerState:
    """A person who asks for a hold or a cancel has decided: whoever watches over us leaves that attempt alone."""
    known = replace(state, requests=with_entry(state.requests, entry))
    attempt, reason = decided_by(entry)
    if not attempt:
        return known
    decided = Decided(attempt=attempt, reason=reason, at=entry.at)
    return replace(known, decided={**known.decided, attempt: decided})


def _apply_to_action(state: LedgerState, entry: Intended | Did | Noted | Ended | Reported) -> LedgerState:
    known = state.actions.get(entry.action_id)
    if known is None:
        return state
    record = _with(known, entry)
    # A successor that goes on in its place leaves this attempt as it is, and so does the watchdog.
    if isinstance(entry, Ended) and (entry.end is not ActionEnd.SUCCEEDED or known.began.advice.successor):
        attempt = str(known.began.advice.attempt)
        decided = Decided(attempt=attempt, reason=f"{entry.end.value}: {entry.reason}", at=entry.at)
        state = replace(state, decided={**state.decided, attempt: decided})
    if not record.is_open and not record.unreported:
        return replace(state, actions={key: item for key, item in state.actions.items() if key != entry.action_id})
    return replace(state, actions={**state.actions, entry.action_id: record})


def _collections(
    known: Mapping[str, CollectionRecord], entry: CollectionBegan | CollectionEnded | CollectionReported
) -> Mapping[str, CollectionRecord]:
    if isinstance(entry, CollectionBegan):
        return {**known, entry.key: known.get(entry.key) or CollectionRecord(began=entry)}
    if isinstance(entry, CollectionReported):
        return {key: item for key, item in known.items() if key != entry.key}
    return {key: replace(item, ended=entry) if key == entry.key else item for key, item in known.items()}


def _with(record: ActionRecord, entry: Intended | Did | Noted | Ended | Reported) -> ActionRecord:
    match entry:
        case Intended():
            return replace(record, intents=(*record.intents, entry))
        case Did() | Noted() | Ended():
            return replace(record, story=(*record.story, entry))
        case Reported():
            return replace(record, reported=record.reported | frozenset(entry.numbers))
