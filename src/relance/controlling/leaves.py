"""What may begin: which orders are claimed, and whether the first command of an action may be sent. Pure.

Each function gives the sentence that speaks against it, or nothing. What has begun is never stopped by any of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.controlling.moves import Leave, Transaction
from relance.controlling.paces import COMMAND_LIMIT_S
from relance.domain.advice import Effect
from relance.domain.stages import Stage
from relance.ports.backends import Order, Orders

OPEN_ENDS = (None, "ActionUnknown")
"""Ends of an action, as the server shows it, that leave it to be finished or settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a controller stands at one moment."""

    at: datetime
    lease_left_s: float
    stop: str
    """Why nothing new begins: the switch, the ledger; empty when nothing speaks against it."""
    unreported: int
    most_unreported: int
    running: int
    most_running: int


def why_not_claimed(order: Order, effect: Effect, standing: Standing) -> str:
    """Why an order is not claimed now; empty when it is."""
    advice, stage = order.advice, order.stage
    kind = advice.ends_running
    reasons = (
        "it has begun already" if order.action is not None else "",
        "" if advice.may_begin else "the advice asks for nothing that may begin now",
        "" if standing.at < advice.expires_at else "the advice has expired",
        _stage_against(order),
        "what was approved is not what would be done now"
        if stage.stage is Stage.APPROVE and order.approved_digest != effect.digest
        else "",
        f"the site does not consent to ending a running attempt for {kind.value}"
        if kind is not None and kind not in stage.end_running
        else "",
        why_nothing_is_begun(standing),
        _lease_against(standing),
    )
    return next((reason for reason in reasons if reason), "")


def why_nothing_is_begun(standing: Standing) -> str:
    """Why this controller begins nothing new, whatever the order and the lease; empty when it may."""
    if standing.stop:
        return standing.stop
    if standing.unreported >= standing.most_unreported:
        return f"the server does not have {standing.unreported} steps of what has begun yet"
    return f"{standing.running} transactions are under way" if standing.running >= standing.most_running else ""


def leave_to_send(transaction: Transaction, standing: Standing, orders: Orders | None) -> tuple[Leave, str]:
    """Whether the first command of an action may go out. `orders` are the newest of this process, None before them.

    An action that was taken up again needs the server's word: its own may be old.
    """
    if standing.stop:
        return Leave.NEVER, standing.stop
    against = _lease_against(standing)
    if transaction.began.advice.expires_at <= standing.at:
        waited = f", and {against}" if against and not transaction.is_resumed else ""
        return Leave.NEVER, f"the advice has expired{waited}"
    if transaction.is_resumed:
        if orders is None:
            return Leave.WAIT, "the server has not said yet whether this action is still open"
        closed = _server_against(transaction.began.action_id, orders)
        if closed:
            return Leave.NEVER, closed
    return (Leave.WAIT, against) if against else (Leave.GRANTED, "")


def _lease_against(standing: Standing) -> str:
    if standing.lease_left_s >= COMMAND_LIMIT_S:
        return ""
    return f"the lease lasts {standing.lease_left_s:.1f} s, less than a command may take"


def _server_against(action_id: str, orders: Orders) -> str:
    order = next((item for item in orders.orders if item.action is not None and item.action.id == action_id), None)
    if order is None or order.action is None or order.action.end not in OPEN_ENDS:
        return "the server does not show this action as open any more"
    return _stage_against(order)


def _stage_against(order: Order) -> str:
    stage = order.stage.stage
    if stage is Stage.ACT or (stage is Stage.APPROVE and order.approved):
        return ""
    if stage is Stage.APPROVE:
        return "nobody has approved it"
    return f"the stage is {stage.value}: {'; '.join(order.stage.why)}"
