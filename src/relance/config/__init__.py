"""Settings of a site: read from a file, checked, and turned into the parts' own values.

What checks them is loaded when it is first asked for: a command without settings does without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relance.config.limits import SettingError, read_limits
    from relance.config.loading import load_settings, read_secret
    from relance.config.settings import ClusterSettings, Settings

__all__ = ["ClusterSettings", "SettingError", "Settings", "load_settings", "read_limits", "read_secret"]

_MODULES = {
    "ClusterSettings": "settings",
    "SettingError": "limits",
    "Settings": "settings",
    "load_settings": "loading",
    "read_limits": "limits",
    "read_secret": "loading",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what the modules have
    """Load the module of a name."""
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
