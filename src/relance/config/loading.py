"""Reading settings: file, environment, overrides; one clear sentence for whatever is wrong."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from relance.config.limits import SettingError
from relance.config.settings import Settings

CONFIG_VARIABLE = "RELANCE_CONFIG"
STATE_VARIABLE = "RELANCE_STATE_DIR"
_MOST_BYTES = 1 << 20


def load_settings(
    path: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Settings from a YAML file (or $RELANCE_CONFIG, or none), with `overrides` by dotted name put over them.

    Raises SettingError when the file cannot be read or a setting cannot be used.
    """
    env = os.environ if environment is None else environment
    chosen = path or (Path(env[CONFIG_VARIABLE]) if env.get(CONFIG_VARIABLE) else None)
    data = _read(chosen) if chosen is not None else {}
    if env.get(STATE_VARIABLE):
        data["state_dir"] = env[STATE_VARIABLE]
    data.setdefault("state_dir", str(default_state_dir(env)))
    for name, value in (overrides or {}).items():
        _put(data, name.split("."), value)
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        where = f"{chosen}: " if chosen else ""
        message = where + "; ".join(_sentences(error, data))
        raise SettingError(message) from error


def default_state_dir(environment: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/relance`, else `~/.local/state/relance`."""
    base = environment.get("XDG_STATE_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".local/state")
    return Path(base) / "relance"


def read_secret(path: Path) -> str:
    """The one line of a secret's file. Raises SettingError when it is missing, empty, or readable by others."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise SettingError(message) from error
    except UnicodeDecodeError as error:
        message = f"{path} should hold one line of text"
        raise SettingError(message) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        message = f"{path} can be read by others: chmod 600 {path}"
        raise SettingError(message)
    if not text or "\n" in text:
        message = f"{path} should hold one line"
        raise SettingError(message)
    return text


def _read(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        message = f"cannot read the settings {path}: {error.strerror}"
        raise SettingError(message) from error
    if len(text) > _MOST_BYTES:
        message = f"{path} is larger than {_MOST_BYTES} bytes: that is no settings file"
        raise SettingError(message)
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        message = f"{path} is not YAML: {error}"
        raise SettingError(message) from error
    except RecursionError as error:
        message = f"{path} is nested too deeply: that is no settings file"
        raise SettingError(message) from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        message = f"{path} should hold settings by name"
        raise SettingError(message)
    return data


def _put(data: dict[str, object], names: list[str], value: object) -> None:
    for name in names[:-1]:
        inner = data.setdefault(name, {})
        if not isinstance(inner, dict):
            message = f"{'.'.join(names)}: {name} is not a group of settings"
            raise SettingError(message)
        data = inner
    data[names[-1]] = value


def _sentences(error: ValidationError, data: object) -> Iterator[str]:
    """What is wrong, each with its place as it stands in the file."""
    told = error.errors()
    for item in told:
        where, what = item["loc"], item["msg"].removeprefix("Value error, ")
        within = any(other["loc"][: len(where)] == where and len(other["loc"]) > len(where) for other in told)
        if item["type"] == "too_short" and within:
            continue  # it only has too few because those that it has are wrong
        if item["type"] == "extra_forbidden":
            what = "no such setting"
        yield f"{'.'.join(_in_file(where, data, is_missing=item['type'] == 'missing'))}: {what}"


def _in_file(where: Sequence[int | str], data: object, *, is_missing: bool) -> Iterator[str]:
    """The parts of a place without those that only say which kind of settings was taken for it."""
    for number, part in enumerate(where):
        if isinstance(data, dict):
            if part not in data and not (is_missing and number == len(where) - 1):
                continue
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int):
            data = data[part]
        yield str(part)
