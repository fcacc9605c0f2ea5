"""The HTTP client of the API, for the command line and for agents apart from the server."""

from __future__ import annotations

from relance.client.addresses import ServerAddress, find_server, read_token, state_dir
from relance.client.backends import HttpBackend
from relance.client.exchanges import ClientError, ServerRefusedError, ServerUnreachableError
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
