"""What the server is told of an action: each entry of its story once, from the ledger, in order, however late."""

from __future__ import annotations

import shlex
from dataclasses import replace

from relance.controlling.ledger import Ledger
from relance.domain.advice import StepRecord
from relance.domain.keys import stable_id
from relance.domain.ledgers import Began, Did, Ended, Intended, Noted, Outcome, Reported, Story, Verb
from relance.ports.backends import Backend, BackendRefusedError, BackendUnavailableError
from relance.ports.clocks import Clock


def step_record(began: Began, story: Story, intent: Intended | None = None) -> StepRecord:
    """The step that an entry of the ledger is reported as; the same entry gives the same id."""
    advice = began.advice
    step = StepRecord(
        # The time tells a ledger that was lost, and begun anew for the same action, from the one before.
        id=stable_id("step", began.action_id, began.holder, began.at.isoformat(), story.number),
        attempt=advice.attempt,
        advice_id=advice.id,
        action_id=began.action_id,
        at=story.at,
        step="end",
    )
    match story:
        case Did():
            is_start = story.outcome is Outcome.DONE and story.verb in _STARTS
            facts = {"command": shlex.join(intent.argv)} if intent is not None else {}
            words = [*facts.values(), _OUTCOMES[story.outcome], story.text]
            return replace(
                step,
                step=f"{story.verb.value}{_NAMED.get(story.outcome, '')}",
                detail=": ".join(word for word in words if word),
                accepted_at=story.at if is_start else None,
                facts=facts,
            )
        case Noted():
            return replace(step, step=story.step, detail=story.detail)
        case Ended():
            return replace(step, detail=story.reason, end=story.end, accepted_at=story.accepted_at)


class Reporter:
    """Hands the server what it does not have yet."""

    def __init__(self, backend: Backend, ledger: Ledger, clock: Clock) -> None:
        """Take the parts; nothing is sent before `flush`."""
        self._backend = backend
        self._ledger = ledger
        self._clock = clock

    async def flush(self) -> str:
        """Report everything that is unreported; gives why it stopped, empty when all is told.

        A step that the server refuses will not be taken the next time either: it counts as told.
        """
        refused = ""
        for began, story in self._ledger.state.unreported:
            try:
                await self._backend.record(step_record(began, story, self._intent(began, story)))
            except BackendUnavailableError as error:
                return str(error) or "the server is away"
            except BackendRefusedError as error:
                refused = f"the server refuses step {story.number} of action {began.action_id}: {error}"
            reported = Reported(action_id=began.action_id, numbers=(story.number,), at=self._clock.now())
            self._ledger.keep(reported, durable=False)
        return refused

    def _intent(self, began: Began, story: Story) -> Intended | None:
        record = self._ledger.state.actions.get(began.action_id)
        intents = record.intents if record is not None else ()
        return next((item for item in intents if isinstance(story, Did) and item.number == story.number), None)


_STARTS = (Verb.REQUEUE, Verb.REQUEUE_HELD, Verb.CONSTRAIN)
"""What the scheduler accepts when it accepts a restart."""
_OUTCOMES = {
    Outcome.DONE: "accepted",
    Outcome.REFUSED: "refused",
    Outcome.SILENT: "no answer",
    Outcome.NOT_SENT: "not sent",
}
_NAMED = {Outcome.REFUSED: " refused", Outcome.NOT_SENT: " not sent"}
"""The name of a step is the command's only if it was done or may have been: the history counts a requeue by it."""
