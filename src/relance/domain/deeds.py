"""What the watchdog did, or would have done: a value for each deed, kept in a spool beside the ledger. Pure.

The watchdog writes a deed before its command goes out, and again with what became of it; the controller hands both to
the server and answers for neither. One file a deed, named by its id, so that a deed told twice is stored once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from relance.domain.encoding import EncodingError, decode, encode
from relance.domain.keys import AttemptKey, stable_id
from relance.domain.ledgers import Verb
from relance.domain.stages import Stage

SPOOL_FOLDER = "watchdog-spool"
"""Its name, in the controller's folder of one cluster."""
DEED_SUFFIX = ".json"
TOLD_SUFFIX = ".told"
"""What a file's name ends in once the server has the deed's last word: the watchdog still counts it, and drops it."""
UNDER_WAY_S = 15.0
"""A command of the watchdog may take its 10 s; after this long it is not under way any more."""


class DeedState(Enum):
    """What became of a deed."""

    WOULD = "would"
    """Only said: the watchdog's stage is below `act`."""
    INTENDED = "intended"
    """Its command is about to be sent, or was: nobody has said yet."""
    DONE = "done"
    """The scheduler accepted it, or shows that it was done."""
    REFUSED = "refused"
    """The scheduler refused it."""
    SILENT = "silent"
    """No answer: looking tells."""
    NOT_SENT = "not_sent"
    """The last look before the command did not allow it any more."""
    LOST = "lost"
    """No answer, and looking shows that nothing came of it. It is not done again."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more will be said of it."""
        return self not in (DeedState.INTENDED, DeedState.SILENT)

    @property
    def may_have_acted(self) -> bool:
        """Whether its command was carried out, or may have been."""
        return self in (DeedState.INTENDED, DeedState.SILENT, DeedState.DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogDeed:
    """One requeue or release by the watchdog.

    `attempt` is the one that failed, as the ledger names it. `restart_count` is what the scheduler shows once a requeue
    is done, and what it showed of the job that was held. `argv` is the command without the way to it. `at` is when it
    was intended, `answered_at` when its state was last told. `reason` says why, `text` what the scheduler answered.
    """

    id: str
    attempt: AttemptKey
    verb: Verb
    number: int
    state: DeedState
    stage: Stage
    argv: tuple[str, ...]
    restart_count: int
    reason: str
    at: datetime
    answered_at: datetime | None = None
    text: str = ""

    @property
    def is_requeue(self) -> bool:
        """Whether the attempt after this one may be its doing."""
        return self.verb is Verb.REQUEUE and self.state.may_have_acted

    def is_under_way(self, now: datetime) -> bool:
        """Whether its command may still reach the scheduler. A time from the future counts as now."""
        if self.state.is_final:
            return False
        return abs((now - (self.answered_at or self.at)).total_seconds()) < UNDER_WAY_S


def deed_id(attempt: AttemptKey, verb: Verb, number: int) -> str:
    """The id of the so-many-eth deed of that kind on that attempt."""
    return stable_id("dog", attempt, verb.value, number)


def deed_text(deed: WatchdogDeed) -> str:
    """The file's content."""
    return json.dumps(encode(deed), sort_keys=True) + "\n"


def read_deed(text: str) -> WatchdogDeed | None:
    """The deed in a file; None where it cannot be read."""
    try:
        deed: WatchdogDeed = decode(WatchdogDeed, json.loads(text))
    except (EncodingError, ValueError, RecursionError):
        return None
    return deed


def under_way(deeds: Iterable[WatchdogDeed], attempt: AttemptKey, now: datetime) -> WatchdogDeed | None:
    """The deed on this attempt whose command may still reach the scheduler; None: none may."""
    return next((deed for deed in deeds if deed.attempt == attempt and deed.is_under_way(now)), None)
