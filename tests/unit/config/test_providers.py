"""Settings of outside providers: clear sentences for what is wrong, and no secret in any of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relance.config import SettingError, Settings, load_settings
from relance.config.providers import (
    AttrsvcProviderSettings,
    HeaderError,
    HttpProviderSettings,
    PluginProviderSettings,
    ServiceSettings,
    header_of,
)

URL = "https://rca.example.org/v1"


def _load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "relance.yaml"
    file.write_text(f"attribution: {{providers: {text}}}")
    return load_settings(file, environment={"HOME": str(tmp_path)})


def test_there_are_none_by_default(tmp_path: Path) -> None:
    assert load_settings(environment={"HOME": str(tmp_path)}).attribution.providers == ()


def test_each_kind_has_its_settings(tmp_path: Path) -> None:
    text = (
        f"[{{name: plain, url: '{URL}'}}, {{kind: attrsvc, name: nvrx, url: 'http://127.0.0.1:8000', wait_s: 60}}, "
        "{kind: ours, name: own, options: {database: /srv/faults.db}}]"
    )
    plain, nvrx, own = _load(tmp_path, text).attribution.providers
    assert isinstance(plain, HttpProviderSettings)
    assert isinstance(nvrx, AttrsvcProviderSettings)
    assert isinstance(own, PluginProviderSettings)
    assert (plain.timeout_s, nvrx.wait_s, own.options) == (5.0, 60.0, {"database": "/srv/faults.db"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"[{{name: a, url: '{URL}'}}, {{name: a, url: '{URL}'}}]", "two providers have the name a"),
        ("[{name: a, url: 'ftp://x'}]", "should begin with http"),
        ("[{name: a, url: 'https://ada:hunter2@x/'}]", "neither user nor password"),
        ("[{name: a, url: 'https://x/ y'}]", "should begin with http"),
        ("[{name: a}]", "url: Field required"),
        (f"[{{name: 'a b', url: '{URL}'}}]", "name"),
        (f"[{{name: a, url: '{URL}', token: x}}]", "no such setting"),
        (f"[{{name: a, url: '{URL}', timeout_s: 0}}]", "timeout_s"),
        (f"[{{kind: attrsvc, name: a, url: '{URL}', options: {{}}}}]", "no such setting"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingError, match=says) as raised:
        _load(tmp_path, text)
    assert "hunter2" not in str(raised.value)


def _service(**changes: Any) -> ServiceSettings:  # noqa: ANN401 - any setting
    return HttpProviderSettings(name="a", url=URL, **changes)


def test_a_header_is_read_from_a_file_or_from_the_environment() -> None:
    assert header_of(_service(), None) is None
    assert header_of(_service(), "Authorization: Bearer t0ken\n") == ("Authorization", "Bearer t0ken")
    found = header_of(_service(header_env="RCA_HEADER"), None, {"RCA_HEADER": "X-Key:  k3y"})
    assert found == ("X-Key", "k3y")


@pytest.mark.parametrize("line", ["t0ken", "X Y: t0ken", "X: t0k\nen", "X: t0k\ten", "X: t0kén", "X:", ": t0ken"])
def test_a_line_that_is_no_header_is_refused_without_being_shown(line: str) -> None:
    with pytest.raises(HeaderError, match="should hold one header") as raised:
        header_of(_service(header_file=Path("/etc/relance/header")), line)
    assert "t0k" not in str(raised.value)


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(HeaderError, match=r"\$RCA_HEADER is not set"):
        header_of(_service(header_env="RCA_HEADER"), None, {})
