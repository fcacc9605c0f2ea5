"""The rules in force for verbs that need no server: those shipped, with those of the settings and the command line."""

from __future__ import annotations

from pathlib import Path

from relance.cli.failures import FailureError
from relance.rules.formats import Pack


def pack_of(config: Path | None, paths: tuple[Path, ...] = ()) -> Pack:
    """The shipped rules with those of the settings and of the command line. Ends the command when one is broken."""
    from relance.config import SettingError, load_settings
    from relance.rules.formats import PackError
    from relance.rules.loading import load_pack
    from relance.rules.pack import read_texts

    try:
        settings = load_settings(config)
        own = {str(path): _text(path) for path in (*settings.rules.files, *paths)}
        return load_pack({**read_texts(), **own}, weights=settings.rules.weights, off=settings.rules.off)
    except (SettingError, PackError) as error:
        raise FailureError(str(error)) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FailureError(f"cannot read the rules {path}: {error}") from error
