"""Templates: escaped by default, an undefined name is an error, and other people's text is made visible."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from relance.console.assets import asset_url
from relance.domain.advice import Command
from relance.recovery import wordings
from relance.recovery.tones import glyph, tone


def _finalize(value: object) -> object:
    """Every value that a template shows passes here; markup of our own templates is left alone."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return wordings.visible(value)
    return value


def _clock(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%H:%M:%S")


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _upfirst(text: str) -> str:
    """The first letter large, the rest as it is: node names keep theirs."""
    return text[:1].upper() + text[1:]


def _argv(command: Command) -> str:
    """A command as a shell would need it."""
    return shlex.join(command.argv)


_environment = Environment(
    loader=PackageLoader("relance.console", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_finalize,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(
    clock=_clock,
    stamp=_stamp,
    iso=_iso,
    words=wordings.name,
    opening=wordings.opening,
    opinion=wordings.opinion,
    request_end=wordings.request_end,
    upfirst=_upfirst,
    duration=wordings.duration,
    steps=wordings.steps,
    nodes=wordings.nodes,
    tone=tone,
    glyph=glyph,
    argv=_argv,
)
_environment.globals["asset"] = asset_url


def render(template: str, status_code: int = 200, **values: object) -> HTMLResponse:
    """A template as a response."""
    return HTMLResponse(_environment.get_template(template).render(**values), status_code=status_code)
