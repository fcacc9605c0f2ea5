"""Settings of the outside services that are asked about a verdict of ours."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

Name = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}):[ \t]*([\x21-\x7e](?:[\x20-\x7e]{0,8000}[\x21-\x7e])?)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServiceSettings(_Strict):
    """What every service has that is asked over HTTP."""

    name: Name
    """The name that stands beside its opinions; each may be used once."""
    url: str
    """Its address, http:// or https://, without user and password."""
    timeout_s: float = Field(default=5.0, ge=0.1, le=60)
    """How long one call may take."""
    header_file: Path | None = None
    """A file of mode 0600 whose one line is a header to send, such as `Authorization: Bearer ...`."""
    header_env: str = Field(default="", pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")
    """The same line from an environment variable of this name."""

    @field_validator("url")
    @classmethod
    def _is_of_the_web(cls, url: str) -> str:
        if not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:_-]+(/[!-~]*)?", url) or "@" in url:
            message = "should begin with http:// or https:// and hold neither user nor password; those go into a header"
            raise ValueError(message)
        return url


class HttpProviderSettings(ServiceSettings):
    """A service that takes the window of a job and returns a verdict."""

    kind: Literal["http"] = "http"
    """Which kind of provider this is."""


class AttrsvcProviderSettings(ServiceSettings):
    """The attribution service of NVRx, which reads the logs itself, by their paths."""

    kind: Literal["attrsvc"]
    """Which kind of provider this is."""
    wait_s: float = Field(default=300.0, ge=1, le=3600)
    """How long its analysis is waited for; what comes after three seconds is kept and does not count."""


class PluginProviderSettings(_Strict):
    """A provider of another package, found by an entry point of the group `relance.attribution_providers`."""

    kind: str = Field(min_length=1, max_length=100)
    """The name of the entry point; not `http` or `attrsvc`."""
    name: Name
    """The name that stands beside its opinions; each may be used once."""
    wait_s: float = Field(default=60.0, ge=0.1, le=3600)
    """How long it may take over one question."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What it is given; see its own description."""


def _kind(value: object) -> str:
    kind = value.get("kind", "http") if isinstance(value, dict) else getattr(value, "kind", "http")
    return kind if kind in ("http", "attrsvc") else "plugin"


ProviderSettings = Annotated[
    Annotated[HttpProviderSettings, Tag("http")]
    | Annotated[AttrsvcProviderSettings, Tag("attrsvc")]
    | Annotated[PluginProviderSettings, Tag("plugin")],
    Discriminator(_kind),
]
"""One provider, by kind; without one it is a plain HTTP service."""


class AttributionSettings(_Strict):
    """Outside services that are asked about a verdict of ours, which is never waited for and never overruled."""

    providers: tuple[ProviderSettings, ...] = Field(default=(), max_length=8)
    """The services, one entry each, at most eight."""

    @field_validator("providers")
    @classmethod
    def _are_different(cls, providers: tuple[ProviderSettings, ...]) -> tuple[ProviderSettings, ...]:
        names = [item.name for item in providers]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            message = f"two providers have the name {twice}"
            raise ValueError(message)
        return providers


class HeaderError(ValueError):
    """A header cannot be used. The text does not hold it."""


def header_of(
    settings: ServiceSettings, secret: str | None, environment: Mapping[str, str] | None = None
) -> tuple[str, str] | None:
    """The secret header of a service, from the text of its file or from the environment; None where it has none.

    Raises HeaderError for a line that is not `Name: value`, and for a variable that is not set.
    """
    line, place = secret, str(settings.header_file)
    if line is None and settings.header_env:
        env = os.environ if environment is None else environment
        line, place = env.get(settings.header_env), f"${settings.header_env}"
        if line is None:
            message = f"{place} is not set"
            raise HeaderError(message)
    if line is None:
        return None
    found = _HEADER.fullmatch(line.strip())
    if found is None:
        message = f"{place} should hold one header, such as `Authorization: Bearer ...`"
        raise HeaderError(message)
    return found[1], found[2]
