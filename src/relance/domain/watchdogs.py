"""The watchdog's mark: a small file beside the ledger by which others see that it watches, and at what stage. Pure.

The watchdog writes it each round; the controller reads it before it does what is safe only with somebody behind it
(design 10: a hold), and `relance check cluster` shows it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from relance.domain.encoding import EncodingError, decode, encode
from relance.domain.stages import Stage

MARK_FILE = "watchdog.json"
"""Its name, in the controller's folder of one cluster."""
_ROUNDS = 3
_AHEAD_S = 5.0
"""Both are on one machine: a mark from further ahead was written before its clock was set back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogMark:
    """How the watchdog of one cluster stood at its newest round.

    `every_s` is the time between two rounds, `partitions` what it serves (empty: all), `alarms` what is wrong, in
    words.
    """

    cluster: str
    at: datetime
    every_s: float
    stage: Stage
    partitions: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()


def why_not_watching(mark: WatchdogMark | None, cluster: str, partition: str, now: datetime) -> str:
    """Empty when the watchdog would free a job of this partition that we hold; else the sentence that says why not."""
    if mark is None:
        return "no watchdog has left its mark"
    if mark.cluster != cluster:
        return f"the watchdog serves cluster {mark.cluster}"
    late_s = (now - mark.at).total_seconds()
    if late_s > _ROUNDS * mark.every_s:
        return f"the watchdog was last seen {late_s:.0f} s ago"
    if late_s < -_AHEAD_S:
        return f"the watchdog's mark is {-late_s:.0f} s ahead of the clock, so when it was seen is not known"
    if mark.stage is not Stage.ACT:
        return f"the watchdog is at stage {mark.stage.value}"
    if mark.partitions and partition not in mark.partitions:
        return f"the watchdog does not serve partition {partition}"
    return mark.alarms[0] if mark.alarms else ""


def mark_text(mark: WatchdogMark) -> str:
    """The file's content."""
    return json.dumps(encode(mark), sort_keys=True)


def read_mark(text: str) -> WatchdogMark | None:
    """The mark in a file; None where it cannot be read."""
    try:
        mark: WatchdogMark = decode(WatchdogMark, json.loads(text))
    except (EncodingError, ValueError, RecursionError):
        return None
    return mark
