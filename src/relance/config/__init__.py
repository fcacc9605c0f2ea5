"""Settings of a site: read from a file, checked, and turned into the parts' own values."""

from __future__ import annotations

from relance.config.limits import SettingError, read_limits
from relance.config.loading import load_settings, read_secret
from relance.config.settings import ClusterSettings, Settings

__all__ = ["ClusterSettings", "SettingError", "Settings", "load_settings", "read_limits", "read_secret"]
