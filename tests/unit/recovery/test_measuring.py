from __future__ import annotations

import pytest

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Sight
from relance.recovery.measuring import measure_of
from relance.testing import history_values as values

PATHS = frozenset({"/kernel/n0", "/kernel/n1"})
OUTPUT = Coverage(source="/logs/out.txt", sight=Sight.SEEN)
SHIPPED = Coverage(source="loki", sight=Sight.MISSING)
KERNEL = Coverage(source="loki kernel logs", sight=Sight.SEEN, scope=Scope.KERNEL)
METRICS = Coverage(source="prometheus", sight=Sight.SEEN, scope=Scope.METRICS)
LEARNED = Coverage(source="progress", sight=Sight.SEEN, scope=None)
REST = Coverage(source="…", sight=Sight.REFUSED)


def sights(*coverage: Coverage, kernel_logs: frozenset[str] = frozenset()) -> tuple[Sight, Sight]:
    """What is said of the job's output, and of kernel logs."""
    measure = measure_of(values.attempt_key("17"), kernel_logs, coverage, None, values.after(0))
    return measure.log, measure.kernel


@pytest.mark.parametrize("beside", [METRICS, LEARNED, KERNEL])
def test_what_comes_of_metrics_kernels_and_ourselves_is_no_output(beside: Coverage) -> None:
    assert sights(SHIPPED, beside)[0] is Sight.MISSING
    assert sights(beside)[0] is Sight.UNKNOWN


def test_output_counts_as_seen_where_any_source_has_it() -> None:
    assert sights(SHIPPED, OUTPUT)[0] is Sight.SEEN


def test_kernel_logs_count_from_whatever_source_they_come() -> None:
    assert sights(OUTPUT, METRICS) == (Sight.SEEN, Sight.UNKNOWN)
    assert sights(OUTPUT, KERNEL) == (Sight.SEEN, Sight.SEEN)
    assert sights(OUTPUT, Coverage(source="/kernel/n0", sight=Sight.REFUSED, scope=Scope.KERNEL))[1] is Sight.REFUSED


def test_kernel_logs_that_are_not_listed_may_be_among_the_rest() -> None:
    listed = Coverage(source="/kernel/n0", sight=Sight.SEEN, scope=Scope.KERNEL)
    assert sights(OUTPUT, listed, REST, kernel_logs=PATHS)[1] is Sight.REFUSED
    assert sights(OUTPUT, listed, REST)[1] is Sight.SEEN
