"""The HTTP client of the API, for the command line and for agents apart from the server.

What talks HTTP is loaded when it is first asked for: a command that needs no server does without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relance.client.addresses import ServerAddress, find_server, read_token, state_dir
    from relance.client.backends import HttpBackend
    from relance.client.errors import ClientError, ServerRefusedError, ServerUnreachableError
    from relance.client.people import ApiClient

__all__ = [
    "ApiClient",
    "ClientError",
    "HttpBackend",
    "ServerAddress",
    "ServerRefusedError",
    "ServerUnreachableError",
    "find_server",
    "read_token",
    "state_dir",
]

_MODULES = {
    "ApiClient": "people",
    "ClientError": "errors",
    "HttpBackend": "backends",
    "ServerAddress": "addresses",
    "ServerRefusedError": "errors",
    "ServerUnreachableError": "errors",
    "find_server": "addresses",
    "read_token": "addresses",
    "state_dir": "addresses",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what the modules have
    """Load the module of a name."""
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
