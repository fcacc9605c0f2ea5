"""Whether an act came out right: judged from the history, the scheduler's accounting and the job's own output. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from relance.cli.demos.acts import Act, Phase
from relance.cli.demos.outputs import AttemptOutput
from relance.domain.faults import Remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """All that is known of an act when it is over."""

    act: Act
    attempts: tuple[Mapping[str, Any], ...]
    """The scheduler's accounting, oldest first."""
    outputs: tuple[AttemptOutput, ...]


def problems(account: Account) -> tuple[str, ...]:
    """What came out wrong, each in one sentence; nothing when all is well."""
    act = account.act
    if act.overdue:
        return (act.overdue,)
    if act.phase is not Phase.OVER or act.broken_at is None or act.story is None:
        return (f"it came to an end too early: {act.phase.value}",)
    checks = _ALONE if act.fault.expectation.is_left_alone else _ACTED
    return tuple(sentence for check in (*_ALWAYS, *checks) for sentence in check(account))


def _ended_as_expected(account: Account) -> Iterable[str]:
    expected = account.act.fault.expectation
    state = account.attempts[-1]["state"] if account.attempts else "unknown to accounting"
    if state != expected.final_state:
        yield f"the job ended {state}, not {expected.final_state}"


def _number_of_attempts(account: Account) -> Iterable[str]:
    low, high = account.act.fault.expectation.attempts
    if not low <= len(account.attempts) <= high:
        yield f"the job had {len(account.attempts)} attempts, not {low} to {high}"


def _one_attempt_per_restart(account: Account) -> Iterable[str]:
    """Exactly one new attempt for each restart of ours, and none that is not ours."""
    counts = [int(row["restart_count"]) for row in account.attempts]
    if counts != list(range(len(counts))):
        yield f"the scheduler counts its attempts as {counts}"
    story = account.act.story
    foreign = [item for item in (story.attempts if story else ())[1:] if not item.by_us]
    if foreign:
        yield f"attempts {[item.attempt.restart_count for item in foreign]} were not started by a restart of ours"
    restarts = sum(item.times.act is not None for item in account.act.incidents)
    if restarts != len(account.attempts) - 1:
        yield f"{restarts} restarts were accepted, but {len(account.attempts) - 1} new attempts followed"


def _resumed_after_checkpoint(account: Account) -> Iterable[str]:
    """Each attempt goes on with the step after the newest checkpoint, by its own words and by the history's."""
    for before, after in pairwise(account.outputs):
        saved = before.saved_step if before.saved_step is not None else before.loaded_step
        if after.loaded_step < saved:
            yield f"an attempt went on from step {after.loaded_step}, though step {saved} was saved"
        if after.first_step is not None and after.first_step != after.loaded_step + 1:
            yield f"an attempt loaded step {after.loaded_step} and went on with step {after.first_step}"
    story, last = account.act.story, account.outputs[-1] if account.outputs else None
    progress = story.job.progress if story is not None else None
    if last is not None and progress is not None and len(account.outputs) > 1:
        known = (progress.loaded_step, progress.first_step)
        if known != (last.loaded_step, last.first_step):
            yield f"the history has {known} as loaded and first step, the job {last.loaded_step}, {last.first_step}"


def _nothing_before_the_fault(account: Account) -> Iterable[str]:
    act = account.act
    early = [item for item in act.incidents if act.broken_at is not None and item.opened_at < act.broken_at]
    if early:
        yield f"an incident was opened before the fault: {early[0].cause}: {early[0].summary}"


def _was_seen(account: Account) -> Iterable[str]:
    if not account.act.incidents:
        yield "no incident was opened"


def _verdict(account: Account) -> Iterable[str]:
    expected, newest = account.act.fault.expectation, account.act.newest
    if newest is None:
        return
    if newest.domain not in expected.domains:
        said = newest.domain.value if newest.domain else "nothing"
        wanted = " or ".join(sorted(domain.value for domain in expected.domains))
        yield f"the verdict says {said}, not {wanted}"
    if newest.action not in expected.remedies:
        said = newest.action.value if newest.action else "nothing"
        yield f"the advice is {said}, not {' or '.join(remedy.value for remedy in expected.remedies)}"
    if newest.end is not expected.end:
        wanted = expected.end.value if expected.end else "open"
        yield f"the incident is {newest.end.value if newest.end else 'open'}, not {wanted}"
    restarts = newest.action in (Remedy.RESTART, Remedy.RESTART_EXCLUDING)
    if restarts and (newest.times.step is None or newest.times.progress is None):
        yield "no step of the new attempt, or none beyond the old ones, was seen"


def _found(account: Account) -> Iterable[str]:
    """What takes steps to be seen is found within so many, with the reason that it has to have."""
    act, fault = account.act, account.act.fault
    if fault.found_within_steps is not None and act.found_step is not None:
        steps = act.found_step - (act.broken_step or 0)
        if steps > fault.found_within_steps:
            yield f"it was found {steps} steps after the fault, not within {fault.found_within_steps}"
    if act.newest is not None and fault.because not in act.newest.summary:
        yield f"the verdict does not say {fault.because!r}: {act.newest.summary}"


def _suspects(account: Account) -> Iterable[str]:
    """A broken node is named and kept out no later than at its second fault; no other node is blamed."""
    act = account.act
    if act.fault.expectation.excludes:
        if act.newest is None or act.broken_node not in act.newest.suspects:
            yield f"node {act.broken_node} is not among the suspects"
        on_node = [row for row in account.attempts if act.broken_node in row["nodes"]]
        if len(on_node) > 2:  # noqa: PLR2004 - its second fault
            yield f"{len(on_node)} attempts ran on node {act.broken_node}"
        if account.attempts and act.broken_node in account.attempts[-1]["nodes"]:
            yield f"the last attempt ran on node {act.broken_node}"
    allowed = {act.broken_node} if act.fault.expectation.excludes else set()
    for item in act.incidents:
        if wrong := sorted(set(item.excluded) - allowed):
            yield f"{', '.join(wrong)} was kept out without need"


def _left_alone(account: Account) -> Iterable[str]:
    acted = [item for item in account.act.incidents if item.times.act is not None]
    if acted:
        yield f"it was acted upon: {acted[0].cause}: {acted[0].summary}"
    if account.act.row is not None and account.act.row["exclude"]:
        yield "nodes were kept out"
    if not any(output.frightened for output in account.outputs):
        yield "it was never frightened: there was nothing to leave alone"
    gone_on = account.outputs[-1].last_step if account.outputs else None
    broken_step = account.act.broken_step
    if gone_on is None or broken_step is None or gone_on <= broken_step:
        yield "it made no step after the fright"


Check = Callable[[Account], Iterable[str]]
_ALWAYS: tuple[Check, ...] = (
    _nothing_before_the_fault,
    _ended_as_expected,
    _number_of_attempts,
    _one_attempt_per_restart,
    _resumed_after_checkpoint,
)
_ACTED: tuple[Check, ...] = (_was_seen, _verdict, _found, _suspects)
_ALONE: tuple[Check, ...] = (_left_alone,)
