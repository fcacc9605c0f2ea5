"""The actions under way: at most one for each job, each in a task of its own, taken up again when it broke off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from relance.controlling.moves import Transaction
from relance.controlling.resumptions import Setting, adopted, fresh, resumed
from relance.controlling.senders import Tools
from relance.controlling.transactions import Carrying
from relance.domain.advice import ActionEnd
from relance.domain.ledgers import Began, Ended
from relance.domain.views import JobView

_log = structlog.get_logger("relance.controlling")
RESUME_AGAIN_S = 60.0
"""Between two tries to settle an action whose end is unknown, or whose task broke."""
MOST_SEEN = 10_000
"""So many actions are remembered after their end. Orders older than the newest end of one are not to be taken for news;
they are seconds old, and no cluster restarts thousands of jobs in seconds."""


class Actions:
    """Starts, resumes and counts transactions."""

    def __init__(
        self, *, setting: Setting, tools: Tools, holder: str, ended: Callable[[], None] = lambda: None
    ) -> None:
        """Begin with none; `resume_open` takes up what the ledger has. `ended` is called at a transaction's end."""
        self._ended = ended
        self.setting = setting
        self._tools = tools
        self._holder = holder
        self._tasks: dict[str, asyncio.Task[Ended]] = {}
        """By job key."""
        self._again_s: dict[str, float] = {}
        """When an open action may be taken up again, by its id."""
        self._seen: dict[str, None] = {}
        """The actions that were begun or ended here, the newest last."""

    @property
    def running(self) -> int:
        """How many are under way."""
        return len(self._tasks)

    def is_busy(self, job: str) -> bool:
        """Whether a transaction on this job (its key as text) is under way."""
        return job in self._tasks

    def knows(self, action_id: str) -> bool:
        """Whether this action was begun here or is in the ledger: then it is not taken over from the server's word."""
        return action_id in self._seen or action_id in self._tools.ledger.state.actions

    def begin(self, began: Began) -> None:
        """Carry out an action that was claimed just now and is in the ledger."""
        self._start(fresh(began, self.setting, self._tools.ledger.state))

    def adopt(self, began: Began, job: JobView) -> None:
        """Finish or settle an action that the server shows as begun; it is in the ledger now."""
        self._start(adopted(began, self.setting, self._tools.ledger.state, job))

    def give_up(self, began: Began, reason: str) -> None:
        """End an action for which nothing can be done, without carrying anything out; its end is told soon."""
        self._note_seen(began.action_id)
        ended = Ended(
            action_id=began.action_id,
            number=1,
            end=ActionEnd.ABANDONED,
            reason=reason,
            at=self._tools.clock.now(),
        )
        self._tools.ledger.keep(began, ended)
        self._tools.told()

    def resume_open(self) -> None:
        """Take up every open action of the ledger that nobody carries out, each at most once a minute."""
        now_s = self._tools.clock.monotonic()
        state = self._tools.ledger.state
        is_open = {record.began.action_id for record in state.open_actions}
        self._again_s = {action_id: at_s for action_id, at_s in self._again_s.items() if action_id in is_open}
        for record in state.open_actions:
            action_id = record.began.action_id
            if self.is_busy(_job(record.began)) or now_s < self._again_s.get(action_id, now_s):
                continue
            self._again_s[action_id] = now_s + RESUME_AGAIN_S
            self._start(resumed(record, self.setting, state, now_s))

    async def drain(self, limit_s: float) -> None:
        """Give what is under way some time, then break it off: the ledger has it."""
        if not self._tasks:
            return
        _, left = await asyncio.wait(self._tasks.values(), timeout=limit_s)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _start(self, transaction: Transaction) -> None:
        began = transaction.began
        self._note_seen(began.action_id)
        self._again_s[began.action_id] = self._tools.clock.monotonic() + RESUME_AGAIN_S
        task = asyncio.get_running_loop().create_task(Carrying(transaction, self._tools).carry_out())
        self._tasks[_job(began)] = task
        task.add_done_callback(lambda done: self._done(began, done))

    def _note_seen(self, action_id: str) -> None:
        self._seen[action_id] = None
        while len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]

    def _done(self, began: Began, task: asyncio.Task[Ended]) -> None:
        self._tasks.pop(_job(began), None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            # The ledger has it open: it is taken up again from what the cluster shows.
            _log.error("transaction broke off", action=began.action_id, error=repr(error))
            return
        self._ended()
        ended = task.result()
        _log.info("action ended", action=began.action_id, end=ended.end.value, reason=ended.reason)


def _job(began: Began) -> str:
    return str(began.advice.attempt.job)
