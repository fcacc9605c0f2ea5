"""From settings to talking with the stores that a site has for its logs and metrics."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator

from relance.config import SettingError, read_secret
from relance.config.sources import LogStoreSettings, StoreSettings
from relance.sources.exchanges import Exchange, ExchangeSettings, StoreError


def exchange_of(settings: StoreSettings) -> Exchange:
    """What talks to a store. Raises SettingError for a secret or certificate that cannot be used."""
    with refusals():
        return Exchange(exchange_settings_of(settings))


def exchange_settings_of(settings: StoreSettings) -> ExchangeSettings:
    """Where a store is, and how to talk to it. Raises SettingError for a secret that cannot be used."""
    return ExchangeSettings(
        url=settings.url,
        headers=headers_of(settings),
        timeout_s=settings.timeout_s,
        ca_file=str(settings.ca_file) if settings.ca_file else None,
        cert_file=str(settings.cert_file) if settings.cert_file else None,
        key_file=str(settings.key_file) if settings.key_file else None,
    )


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """What a store's adapter refuses of its settings, as an error of these."""
    try:
        yield
    except StoreError as error:
        raise SettingError(error.told) from error


def headers_of(settings: StoreSettings) -> dict[str, str]:
    """The headers for tenant and authorisation, secrets read from their files. Raises SettingError."""
    headers: dict[str, str] = {}
    if settings.token_file is not None:
        headers["Authorization"] = f"Bearer {read_secret(settings.token_file)}"
    elif settings.user:
        password = read_secret(settings.password_file) if settings.password_file is not None else ""
        packed = base64.b64encode(f"{settings.user}:{password}".encode()).decode("ascii")
        headers["Authorization"] = f"Basic {packed}"
    if isinstance(settings, LogStoreSettings) and settings.kind == "victorialogs" and settings.tenant:
        account, _, project = settings.tenant.partition(":")
        headers |= {"AccountID": account, "ProjectID": project or "0"}
    elif settings.tenant:
        headers["X-Scope-OrgID"] = settings.tenant
    return headers
