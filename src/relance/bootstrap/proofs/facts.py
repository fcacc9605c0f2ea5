"""What was said about signals, before anything is judged. Times of entries are nanoseconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.findings import Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJob:
    """A job whose lines are looked for. `progress_pattern` is the site's or its own; None: dialects are tried.

    `is_known` is False where only its id was given and the scheduler does not know it (any more).
    """

    raw_id: str
    nodes: tuple[str, ...] = ()
    started_at: datetime | None = None
    is_running: bool = True
    progress_pattern: str | None = None
    is_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What lines tell of progress. `reader` is the dialect; None: no steps were recognised. Times in seconds."""

    reader: str | None = None
    steps: int = 0
    step: int | None = None
    median_step_s: float | None = None
    learned: str | None = None
    """What the lines look like whose format is not known and was learned; None: it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why something could not be read, and what mends it."""

    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLines:
    """What a store had of one job. `is_whole`: all lines of the time were read, not only the newest."""

    job: WantedJob
    value: str
    """The value of the job's label that was asked for."""
    lines: int = 0
    is_whole: bool = True
    newest_ns: int | None = None
    future_lines: int = 0
    furthest_ns: int | None = None
    """The latest time of a line from the future."""
    nodes: frozenset[str] = frozenset()
    """Values of the node's label on these lines."""
    without_node: int = 0
    """Lines whose stream has no label for the node."""
    progress: StepFacts = field(default_factory=StepFacts)
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LagFacts:
    """How late lines that came while we watched were, in seconds, each up to a second too much."""

    watched_s: float
    lags_s: tuple[float, ...] = ()
    why_not: str = ""
    """Why it cannot be told; empty: it can, if any line came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What the rules ask a store for, of one kind of lines: a pattern; empty: all lines, because of rules `unfit`."""

    kind: str
    lines: str
    unfit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterFacts:
    """How a store took a filter: in how many seconds it answered, or why it did not."""

    filter: Filter
    took_s: float = 0.0
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """A label under which a wanted value was found, and how the value is made of it: a template, or empty."""

    label: str
    template: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What one log store said. `failure` set: it did not answer, and nothing else is known."""

    version: str = ""
    failure: Failure | None = None
    labels: frozenset[str] = frozenset()
    nodes: tuple[str, ...] = ()
    """Values of the node's label."""
    jobs: tuple[JobLines, ...] = ()
    job_clue: Clue | None = None
    """Where jobs' ids were found, when they are not where the settings say."""
    node_clue: Clue | None = None
    kernel: JobLines | None = None
    """Kernel lines of any node; its job means nothing."""
    lag: LagFacts | None = None
    filters: tuple[FilterFacts, ...] = ()
    clock_ahead_s: float | None = None
    """How far its clock is ahead of ours, at least; negative: behind; None: it does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What the file source saw of one job."""

    job: WantedJob
    log_paths: tuple[str, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    progress: StepFacts = field(default_factory=StepFacts)
    lines: int = 0
    kernel_paths: frozenset[str] = frozenset()
    """Which of the coverage's sources are kernel logs."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFacts:
    """What a metric store has under one name. Times are seconds since 1970."""

    count: int
    newest_s: float | None = None
    not_numbers: int = 0
    """How many series have NaN as their last sample."""
    from_future: int = 0
    """How many series have samples from the future."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFacts:
    """What one metric store said. `failure` set: it did not answer, and nothing else is known."""

    version: str = ""
    failure: Failure | None = None
    names: frozenset[str] = frozenset()
    """Names of all series of this cluster."""
    series: Mapping[str, SeriesFacts] = field(default_factory=dict)
    """Some of the wanted ones, looked at closely."""
    node_label: str = ""
    """The label that names nodes; empty: none was found."""
    nodes: tuple[str, ...] = ()
    progress: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By job and series of progress: how many there are."""
    problems: tuple[Failure, ...] = ()
    """What could not be asked, where the rest could."""
