"""A program that fell silent while others still told of its job stood still; one whose log simply ends did not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relance.domain.findings import Certainty, FindingKind
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.progress import Phase, Progress
from relance.watching.standstills import LEAST, standstill_of

LAST = datetime(2026, 5, 2, 11, tzinfo=UTC)
ATTEMPT = AttemptKey(job=JobKey(cluster="alpha", raw_id="17", submitted_at=LAST), restart_count=0)
STEPPED = Progress(as_of=LAST, phase=Phase.TRAINING, step=400, step_at=LAST, steps_seen=400, median_step_s=2.0)
MINUTE = timedelta(minutes=1)


def stood_still(told: timedelta | None, spoke: timedelta | None = None, **changes: Any) -> bool:  # noqa: ANN401 - any field
    """Whether others that told of the job so long after the last step make it a standstill."""
    return (
        standstill_of(
            ATTEMPT,
            replace(STEPPED, **changes),
            None if spoke is None else LAST + spoke,
            None if told is None else LAST + told,
        )
        is not None
    )


def test_it_stood_still_if_others_told_of_it_long_after_its_last_step() -> None:
    assert stood_still(LEAST)
    assert not stood_still(LEAST - MINUTE / 60)


STANDS_NOT: dict[str, dict[str, Any]] = {
    "nobody else told of it": {"told": None},
    "when its steps were is not known": {"told": 60 * MINUTE, "step_at": None},
    "it went on writing": {"told": 60 * MINUTE, "spoke": 55 * MINUTE},
    "its steps take as long": {"told": 60 * MINUTE, "median_step_s": 200.0},
    "it paused as long before": {"told": 60 * MINUTE, "longest_pause_s": 1300.0},
    "it had begun to end": {"told": 60 * MINUTE, "phase": Phase.ENDING},
    "it was saving": {"told": 60 * MINUTE, "phase": Phase.SAVING},
}


@pytest.mark.parametrize("name", STANDS_NOT)
def test_it_did_not_stand_still_where(name: str) -> None:
    assert not stood_still(**STANDS_NOT[name])


@pytest.mark.parametrize(
    "changes", [{"median_step_s": 170.0}, {"longest_pause_s": 1190.0}, {"spoke": 45 * MINUTE}, {"median_step_s": None}]
)
def test_beyond_its_own_limits_it_did(changes: dict[str, Any]) -> None:
    assert stood_still(60 * MINUTE, **changes)


def test_the_finding_says_since_when_and_at_which_step() -> None:
    found = standstill_of(ATTEMPT, STEPPED, None, LAST + 30 * MINUTE)
    assert found is not None
    assert (found.kind, found.certainty, found.symptom_at) == (FindingKind.HANG, Certainty.CONFIRMED, LAST)
    assert "30 minutes after step 400" in found.summary
    assert found == standstill_of(ATTEMPT, STEPPED, None, LAST + 30 * MINUTE), "the same logs give the same finding"
