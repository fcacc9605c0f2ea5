"""Outside providers from the settings, ours and those of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from relance.bootstrap import providers
from relance.bootstrap.providers import open_desks
from relance.config import SettingError, Settings, load_settings
from relance.domain.verdicts import Opinion
from relance.ports.clocks import Clock
from relance.ports.providers import ProviderQuestion
from relance.testing.manual_clocks import ManualClock
from relance.testing.provider_contract import QUESTION


class Foreign:
    """A provider as another package would bring it."""

    def __init__(self, name: str, options: Mapping[str, Any], clock: Clock) -> None:
        self.name = name
        self._cause = options["cause"]
        self._clock = clock

    async def ask(self, question: ProviderQuestion) -> Opinion | None:
        return Opinion(provider=self.name, at=self._clock.now(), cause=self._cause)

    async def close(self) -> None: ...


def _settings(*entries: Mapping[str, Any]) -> Settings:
    return load_settings(overrides={"attribution.providers": list(entries)}, environment={"HOME": "/nowhere"})


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints([EntryPoint("ours", f"{__name__}:Foreign", providers.GROUP)])
    monkeypatch.setattr(providers, "entry_points", lambda group: points.select(group=group))
    monkeypatch.setattr(EntryPoint, "load", lambda _: Foreign)


async def test_each_entry_becomes_a_desk_in_its_order() -> None:
    desks = open_desks(
        _settings(
            {"name": "plain", "url": "http://127.0.0.1:9"},
            {"kind": "attrsvc", "name": "nvrx", "url": "http://127.0.0.1:9"},
            {"kind": "ours", "name": "own", "options": {"cause": "a_known_bug"}},
        ),
        ManualClock(),
    )
    assert [desk.name for desk in desks] == ["plain", "nvrx", "own"]
    opinion = await desks[2].ask(QUESTION)
    assert opinion is not None
    assert (opinion.provider, opinion.cause) == ("own", "a_known_bug")
    for desk in desks:
        await desk.close()


def test_a_kind_that_nobody_brings_is_said_with_those_there_are() -> None:
    with pytest.raises(SettingError, match="own: no kind 'theirs'; there are: attrsvc, http, ours"):
        open_desks(_settings({"kind": "theirs", "name": "own"}), ManualClock())


def test_a_provider_that_does_not_take_its_options_is_said() -> None:
    with pytest.raises(SettingError, match="own: ours cannot be used: 'cause'"):
        open_desks(_settings({"kind": "ours", "name": "own"}), ManualClock())


def test_a_header_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "header"
    file.write_text("X-Key: k3y\n")
    file.chmod(0o644)
    entry = {"name": "plain", "url": "http://127.0.0.1:9", "header_file": str(file)}
    with pytest.raises(SettingError, match="can be read by others"):
        open_desks(_settings(entry), ManualClock())
    file.chmod(0o600)
    file.write_text("k3y\n")
    with pytest.raises(SettingError, match=r"plain: .* should hold one header") as raised:
        open_desks(_settings(entry), ManualClock())
    assert "k3y" not in str(raised.value)
