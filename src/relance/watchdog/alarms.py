"""What is wrong now, by subject, and what was counted: said in the log, in the mark, and as metrics."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import TextIO


class Subject(Enum):
    """What an alarm is about; the reference says what to do for each."""

    LEDGER = "ledger"
    """The ledger is missing, unreadable, damaged, of a newer version, or another cluster's: nothing is done."""
    LEDGER_OLD = "ledger_old"
    """The controller has given no sign of life for longer than its ledger is relied on: nothing is done."""
    STOP = "stop"
    """A file STOP is in the controller's folder: nothing is done."""
    SCHEDULER = "scheduler"
    """Slurm does not answer, or not so that it can be read."""
    SETTINGS = "settings"
    """How long Slurm remembers an ended job is not known: nothing is requeued."""
    ACCOUNTING = "accounting"
    """Accounting does not tell whether somebody ended an attempt: it is not requeued."""
    SPOOL = "spool"
    """The spool is full or cannot be used: nothing is done."""
    LIMIT = "limit"
    """A limit on requeues is reached: an attempt will be lost."""
    LEFT = "left"
    """An attempt will be lost, or a job stays held, and the watchdog leaves it so."""
    REFUSED = "refused"
    """Slurm refused what the watchdog asked for, or nothing came of it."""
    ERROR = "error"
    """An error of the watchdog itself."""


class Log:
    """Lines of JSON for people and collectors of logs."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Write to a stream; None: standard error."""
        self._stream = stream

    def say(self, at: datetime, level: str, event: str, **facts: object) -> None:
        """Write one line. A stream that takes nothing stops nothing."""
        line = {"at": at.isoformat(timespec="milliseconds"), "level": level, "event": event, **facts}
        stream = self._stream or sys.stderr
        try:
            stream.write(json.dumps(line, ensure_ascii=True, default=str) + "\n")
            stream.flush()
        except (OSError, ValueError):
            return


class Alarms:
    """The alarms of one cluster; each change is logged once."""

    def __init__(self, cluster: str, log: Log) -> None:
        """Begin with none."""
        self.now: dict[Subject, str] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """How many deeds came to which state, by verb and state."""
        self._cluster = cluster
        self._log = log

    def set(self, at: datetime, subject: Subject, text: str) -> None:
        """Raise an alarm, or clear it with an empty text."""
        if self.now.get(subject, "") == text:
            return
        if text:
            self.now[subject] = text
            self._log.say(at, "warning", "alarm", cluster=self._cluster, subject=subject.value, text=text)
        else:
            del self.now[subject]
            self._log.say(at, "info", "alarm cleared", cluster=self._cluster, subject=subject.value)

    def say(self, at: datetime, event: str, **facts: object) -> None:
        """Log something of this cluster."""
        self._log.say(at, "info", event, cluster=self._cluster, **facts)


def listed(texts: Iterable[str], most: int = 3) -> str:
    """The first few of some sentences, and how many more there are."""
    known = list(dict.fromkeys(texts))
    more = f"; and {len(known) - most} more" if len(known) > most else ""
    return "; ".join(known[:most]) + more
