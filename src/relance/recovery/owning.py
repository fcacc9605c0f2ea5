"""What an owner without a token may see and do: the own job's story and switch, and nothing that belongs to others."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from relance.domain import events as e
from relance.domain.faults import Scope
from relance.domain.records import JobRecord
from relance.domain.requests import OURSELVES
from relance.domain.streams import Stream
from relance.ports.histories import History
from relance.recovery.ordering import switch
from relance.recovery.stories import JobStory, Quote

_QUOTED = re.compile(r':? ?"[^\n]*"')


def signature(record: JobRecord, uid: int) -> str:
    """How an owner's order is signed in the history."""
    return f"{record.user or 'the owner'} (uid {uid})"


async def switched_by_another(history: History, record: JobRecord, uid: int, now: datetime) -> str:
    """The name of the person, not the owner, whose switch on the job is in force; empty: there is none.

    A ceiling that Relance set by itself, when it saw another engine at work, is the owner's to lift.
    """
    if switch(record, now) is None:
        return ""
    last = ""
    for recorded in await history.read(Stream.of_job(record.job)):
        if isinstance(recorded.event, e.JobSwitched | e.OwnerDisagreed):
            last = recorded.event.by
    return "" if last in (OURSELVES, signature(record, uid)) else last


def own_part(story: JobStory) -> JobStory:
    """The story without the words of lines that are not from the job's own logs.

    A node's kernel log names other people's processes: what it shows and where it stands is told, the line is not.
    """
    items = tuple(replace(item, summary="") for item in story.incidents)
    if story.storm is not None:  # whose jobs share it is not theirs to know
        story = replace(story, storm=replace(story.storm, incidents=(), canary=None, cleared_by=""))
    # what a provider says in its own words may quote anybody's lines
    story = replace(story, opinions=tuple(replace(item, text="") for item in story.opinions))
    quote = story.quote
    if quote is not None and not is_own(quote):
        hidden = f"(a line of the kernel log of {quote.node or 'a node'})"
        return replace(
            story, quote=replace(quote, text=hidden), happened=_QUOTED.sub("", story.happened), incidents=items
        )
    return replace(story, happened=_with_own_quote(story.happened, quote), incidents=items)


def _with_own_quote(happened: str, quote: Quote | None) -> str:
    """The sentence without a line that is not in `quote`, the job's own: it does not say from which log it is."""
    found = _QUOTED.search(happened)
    if found is None or (quote is not None and found[0].strip(': "') in quote.text):
        return happened
    return _QUOTED.sub("", happened)


def is_own(quote: Quote) -> bool:
    """Whether a quoted line may be shown to the job's owner: what kernels say is of everybody on the node."""
    return quote.scope != Scope.KERNEL.value
