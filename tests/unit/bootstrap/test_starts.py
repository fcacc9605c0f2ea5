"""A start that cannot be made says in a sentence why, and gives back what it had opened."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import pytest

from relance.bootstrap.roles import run_up
from relance.bootstrap.sites import site_of
from relance.bootstrap.states import open_state, session_key
from relance.config import SettingError, Settings, load_settings


def _settings(folder: Path) -> Settings:
    cluster = {"name": "alpha", "scheduler": {"kind": "local", "state_dir": str(folder / "scheduler")}}
    return load_settings(
        overrides={"state_dir": str(folder / "state"), "clusters": [cluster], "server.port": 0}, environment={}
    )


def test_a_step_pattern_that_cannot_be_used_is_said_at_the_start() -> None:
    cluster = {"name": "alpha", "progress_patterns": {"gpu": "(?P<step>["}}
    settings = load_settings(overrides={"state_dir": "/nowhere", "clusters": [cluster]}, environment={})
    with pytest.raises(SettingError, match=r"cluster alpha: progress_patterns\.gpu"):
        site_of(settings)


def test_a_session_key_that_is_none_is_named_with_the_remedy(tmp_path: Path) -> None:
    folder = open_state(_settings(tmp_path))
    folder.session_key.touch(mode=0o600)
    folder.session_key.write_text("no key\n", encoding="utf-8")
    with pytest.raises(SettingError, match="remove it"):
        session_key(folder)


def test_a_file_of_the_state_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    open_state(settings).server_file.mkdir()
    with pytest.raises(SettingError, match="cannot write in the state folder"):
        run_up(settings)


def test_a_controller_that_cannot_be_opened_leaves_no_role_half_made(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    open_state(settings).controller("alpha").parent.write_text("in the way", encoding="utf-8")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(Exception, match="controllers/alpha"):
            run_up(settings)
        gc.collect()
    assert [str(one.message) for one in warned if "never awaited" in str(one.message)] == []
