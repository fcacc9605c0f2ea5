"""The rules in force for verbs that need no server: those shipped, with those of the settings and the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from relance.cli.failures import FailureError
from relance.ports.caches import Cache
from relance.rules.engines import EngineMaker
from relance.rules.formats import Pack, PackError

_MOST_BYTES = 8 << 20


def pack_of(config: Path | None, paths: tuple[Path, ...] = ()) -> Pack:
    """The shipped rules with those of the settings and of the command line. Ends the command when one is broken.

    Rules that were read before come from the user's cache.
    """
    from relance.rules.keeping import kept_pack
    from relance.rules.pack import loader_version, read_texts

    files, weights, off = _settings(config)
    texts = {**read_texts(), **{str(path): _text(path) for path in (*files, *paths)}}

    def load() -> Pack:
        from relance.rules.loading import load_pack

        return load_pack(texts, weights=weights, off=off)

    try:
        return kept_pack(texts, user_cache(), load, settings=(weights, off), version=loader_version())
    except PackError as error:
        raise FailureError(str(error)) from error


def engine_of() -> EngineMaker:
    """The best engine that there is here, its compiled rules kept in the user's cache."""
    from relance.rules.hyperscans import best_engine

    return best_engine(user_cache())


def user_cache() -> Cache:
    """The cache of who calls."""
    from relance.config.caches import FolderCache, default_cache_folder

    return FolderCache(default_cache_folder())


def _settings(config: Path | None) -> tuple[Sequence[Path], Mapping[str, float], Sequence[str]]:
    """Rule files, weights and rules that are off, of the settings if there are any."""
    if config is None and not os.environ.get("RELANCE_CONFIG"):
        return (), {}, ()
    from relance.config import SettingError, load_settings

    try:
        rules = load_settings(config).rules
    except SettingError as error:
        raise FailureError(str(error)) from error
    return rules.files, rules.weights, rules.off


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise FailureError(f"cannot read the rules {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FailureError(f"cannot read the rules {path}: {error}", "rules are text in UTF-8") from error
    if len(data) > _MOST_BYTES:
        raise FailureError(f"{path} is longer than {_MOST_BYTES} bytes: that is no file of rules")
    return text
