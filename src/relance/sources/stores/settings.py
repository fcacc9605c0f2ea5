"""How a log store is read: how its labels name jobs, how often it is asked, and what bounds that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSourceSettings:
    """Settings of a source over a log store. Sizes in bytes, times in seconds.

    The first ones are those of a site's settings, where they are explained.
    """

    name: str = "logs"
    match: Mapping[str, str] = field(default_factory=dict)
    job_label: str = "job_id"
    job_value: str = "{raw_id}"
    node_label: str = "node"
    node_value: str = "{node}"
    rank_label: str = ""
    kernel_match: Mapping[str, str] = field(default_factory=dict)
    poll_s: float = 2.0
    delay_s: float = 10.0
    requests_per_s: float = 5.0
    told_s: float = 4.0
    """An attempt that says nothing is told of so often, so that its silence is counted."""
    ahead_s: float = 900.0
    """Lines may bear a time so far in the future: Loki takes ten minutes."""
    before_s: float = 60.0
    """Kernel lines, and those of a job's first attempt, count from so long before its start."""
    between_s: float = 2.0
    """Lines from so long before the start of a later attempt are its own, and not those of the one before."""
    after_s: float = 300.0
    """Lines from up to so long after the end of an attempt are its own."""
    span_s: float = 6 * 3600.0
    """The time that one query is about, at most."""
    span_least_s: float = 60.0
    page_entries: int = 5000
    """Entries of one answer, at most (Loki's own limit)."""
    page_least: int = 50
    pages_at_once: int = 10
    """Pages of one batch of attempts before the others have their turn."""
    query_bytes: int = 16 * 1024
    """Names of jobs or nodes in one query, at most; Loki takes queries of up to 128 KiB."""
    query_names: int = 500
    apart_s: float = 30.0
    """Attempts that were read up to times further apart than this are asked for apart."""
    close_s: float = 0.25
    """Lines of one block are from within so long: what bears no time in its text has that of its block."""
    block_bytes: int = 256 * 1024
    line_bytes: int = 256 * 1024
    """A longer line is delivered in pieces; the stores' own limit is the same."""
    read_bytes: int = 1024 * 1024
    """Of one attempt in one read."""
    pending_bytes: int = 1024 * 1024
    """Of one attempt, fetched and not yet read; then it is left out until it has room."""
    pending_lines: int = 20_000
    """The same in lines, of which each takes more than its bytes."""
    identities: int = 2000
    """Lines younger than `delay_s` that are remembered, so that none comes twice; further ones wait until they age."""
    kernel_identities: int = 500
    streams: int = 600
    """Streams of an attempt whose sizes are remembered."""
    away_most_s: float = 30.0
    """The longest wait before a store that does not answer is asked again."""
    refused_s: float = 30.0
    """What the store refused is asked for again after so long."""
    idle_s: float = 15.0
    """A store that there is nothing to ask of is asked whether it is there."""
    sample_s: float = 60.0
    """An attempt of which no progress is recognised has a sample of all its lines read, so often."""
    sample_lines: int = 200
    sample_attempts: int = 25
    """In one query."""
