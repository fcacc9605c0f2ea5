from __future__ import annotations

import pytest

from tests.components.presence import require_component


def test_a_component_that_is_there_is_given_by_its_path() -> None:
    assert require_component("the shell", "this test", program="sh").name == "sh"


def test_a_missing_component_skips_with_its_name_and_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="unicorn is not on this machine; it is needed for magic"):
        require_component("unicorn", "magic", program="no-such-program")


def test_a_missing_component_fails_where_nobody_reads_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="unicorn is not on this machine"):
        require_component("unicorn", "magic", program="no-such-program")
