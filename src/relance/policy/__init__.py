"""What to do about an incident, and whether it may begin: pure, with the time passed in."""

from __future__ import annotations

from relance.policy.decisions import decide, same_decision
from relance.policy.gates import GateQuestion, LeaseSeen, gates, gates_open
from relance.policy.questions import Question
from relance.policy.storms import RENEW_BEFORE, StormSeen, detect_storm, park_until, storm_has_passed

__all__ = [
    "RENEW_BEFORE",
    "GateQuestion",
    "LeaseSeen",
    "Question",
    "StormSeen",
    "decide",
    "detect_storm",
    "gates",
    "gates_open",
    "park_until",
    "same_decision",
    "storm_has_passed",
]
