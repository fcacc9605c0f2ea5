"""The console's own files: read once, named by their content, kept by browsers for ever."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from relance.serving.problems import ProblemError, problem_of_status

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file with its address, which changes with its content."""

    name: str
    body: bytes
    media_type: str
    url: str


def _load() -> dict[str, Asset]:
    found: dict[str, Asset] = {}
    for entry in files("relance.console").joinpath("static").iterdir():
        ending = entry.name.rpartition(".")[2]
        if ending in _TYPES:
            body = entry.read_bytes()
            mark = hashlib.sha256(body).hexdigest()[:16]
            url = f"/static/{mark}/{entry.name}"
            found[entry.name] = Asset(name=entry.name, body=body, media_type=_TYPES[ending], url=url)
    return found


ASSETS = _load()


def asset_url(name: str) -> str:
    """The address of an asset. Raises KeyError for one that does not exist."""
    return ASSETS[name].url


async def serve_asset(request: Request) -> Response:
    """An asset under its present address; an old address is gone."""
    asset = ASSETS.get(request.path_params["name"])
    if asset is None or request.url.path != asset.url:
        raise ProblemError(problem_of_status(404, "no such file"))
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(asset.body, media_type=asset.media_type, headers=headers)
