"""A ledger rewritten to its essence: the fewest entries that come to the same. Pure, standard library only."""

from __future__ import annotations

from datetime import datetime

from relance.domain.ledgers import VERSION, ActionRecord, Entry, LedgerState, Opened, Reported, Taken
from relance.domain.requests import entries_of


def compacted(state: LedgerState, keep_decided_since: datetime, at: datetime) -> tuple[Entry, ...]:
    """The fewest entries that fold to the same state, but for decisions older than that on attempts not taken."""
    found: list[Entry] = [Opened(version=VERSION, cluster=state.cluster, at=at)]
    by_time: dict[datetime, list[str]] = {}
    for key, since in state.taken.items():
        by_time.setdefault(since, []).append(key)
    found += [Taken(attempts=tuple(keys), at=since) for since, keys in by_time.items()]
    found += [
        entry for key, entry in state.decided.items() if key in state.taken or entry.at >= keep_decided_since
    ]  # fmt: skip
    found += [entry for entry in state.parked.values() if entry.until >= keep_decided_since]
    for job, lists in state.exclusions.items():
        # A job may run for longer than any decision is of interest, and be requeued then.
        if lists[-1].at >= keep_decided_since or any(key.startswith(f"{job}/") for key in state.taken):
            found += lists
    for record in state.actions.values():
        found += _entries_of(record)
    for collection in state.collections.values():
        found += [collection.began, *([collection.ended] if collection.ended is not None else [])]
    for request in state.requests.values():
        found += entries_of(request)
    return tuple(found)


def _entries_of(record: ActionRecord) -> list[Entry]:
    """An action's entries: the fold keeps commands and story apart, each in its order."""
    entries: list[Entry] = [record.began, *record.intents, *record.story]
    if record.reported:
        numbers = tuple(sorted(record.reported))
        entries.append(Reported(action_id=record.began.action_id, numbers=numbers, at=record.began.at))
    return entries
