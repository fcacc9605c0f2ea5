"""Outside attribution providers from the settings: our own kinds, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from relance.config import SettingError, Settings, read_secret
from relance.config.providers import (
    AttrsvcProviderSettings,
    HeaderError,
    HttpProviderSettings,
    PluginProviderSettings,
    ServiceSettings,
    header_of,
)
from relance.ports.clocks import Clock
from relance.ports.providers import AttributionProvider
from relance.providers.attrsvc import AttrsvcProvider
from relance.providers.exchanges import Exchange
from relance.providers.windows import WindowProvider
from relance.recovery.desks import Desk

GROUP = "relance.attribution_providers"
"""The entry points by which other packages bring providers."""
_SPARE_S = 1.0
"""A provider that keeps its own limit is given this much more before it is given up from outside."""

ProviderFactory = Callable[[str, Mapping[str, Any], Clock], AttributionProvider]
"""What such an entry point names: it is called with the provider's name, its options, and the clock."""


def open_desks(settings: Settings, clock: Clock) -> tuple[Desk, ...]:
    """A desk for each provider of the settings. Raises SettingError for one that cannot be used."""
    return tuple(_desk(item, clock) for item in settings.attribution.providers)


def _desk(item: HttpProviderSettings | AttrsvcProviderSettings | PluginProviderSettings, clock: Clock) -> Desk:
    match item:
        case AttrsvcProviderSettings():
            provider = AttrsvcProvider(item.name, _exchange(item), clock, item.wait_s)
            return Desk(provider, clock, item.wait_s + item.timeout_s + _SPARE_S)
        case HttpProviderSettings():
            return Desk(WindowProvider(item.name, _exchange(item), clock), clock, item.timeout_s + _SPARE_S)
        case PluginProviderSettings():
            return Desk(_plugin(item, clock), clock, item.wait_s)


def _exchange(item: ServiceSettings) -> Exchange:
    secret = read_secret(item.header_file) if item.header_file is not None else None
    try:
        return Exchange(item.url, item.timeout_s, header_of(item, secret))
    except HeaderError as error:
        message = f"attribution.providers: {item.name}: {error}"
        raise SettingError(message) from error


def _plugin(item: PluginProviderSettings, clock: Clock) -> AttributionProvider:
    found = entry_points(group=GROUP)
    if item.kind not in found.names:
        known = ", ".join(sorted({"http", "attrsvc", *found.names}))
        message = f"attribution.providers: {item.name}: no kind {item.kind!r}; there are: {known}"
        raise SettingError(message)
    try:
        factory: ProviderFactory = found[item.kind].load()
        return factory(item.name, item.options, clock)
    except Exception as error:
        message = f"attribution.providers: {item.name}: {item.kind} cannot be used: {error}"
        raise SettingError(message) from error
