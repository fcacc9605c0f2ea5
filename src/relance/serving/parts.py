"""What an HTTP server is built from: ports and settings, handed in by the wiring."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from relance.ports.backends import Backend
from relance.ports.clocks import Clock
from relance.ports.histories import History
from relance.ports.tokens import TokenStore
from relance.recovery.commands import Commands
from relance.recovery.live import Live
from relance.recovery.queries import Queries
from relance.recovery.requesting import Requesting
from relance.recovery.sites import Site
from relance.serving.identities import Identities
from relance.serving.owners import Owners

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Host names under which the server always answers; anything else has to be allowed by the site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """What the site sets about HTTP. Sizes in bytes, times in seconds.

    `allowed_hosts` are the names, without port, under which people reach the server, beside loopback. With
    `secure_cookies` a browser sends the session only over HTTPS; set it where a proxy speaks TLS for us.
    """

    allowed_hosts: frozenset[str] = frozenset()
    secure_cookies: bool = False
    session_s: float = 43200.0
    """A night's watch and the morning after."""
    body_bytes: int = 65536
    """Most that a person's request may carry."""
    agent_body_bytes: int = 67108864
    """Most that an agent's request may carry: a report of 10 000 jobs, or the kept tails of an attempt's files."""
    streams: int = 200
    """Most event streams at a time; each holds a connection and one page of events."""
    ping_s: float = 15.0
    longest_wait_s: float = 30.0
    """Longest that an agent's wait is held open."""

    def allows_host(self, host: str) -> bool:
        """Whether a Host header, with or without port, names this server."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name.lower() in LOOPBACK or name.lower() in self.allowed_hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """The parts of a server. `session_key` signs sessions: keep it in a file, or each start logs everybody out.

    `live` is set where the loop runs in the same process: what it holds is newer than the history's copy.
    """

    backend: Backend
    history: History
    tokens: TokenStore
    clock: Clock
    site: Site = field(default_factory=Site)
    live: Live | None = None
    web: WebSettings = field(default_factory=WebSettings)
    session_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    owners: Owners = field(default_factory=Owners)

    def queries(self) -> Queries:
        """The read side over these parts."""
        return Queries(self.history, self.site, self.clock, self.live)

    def commands(self) -> Commands:
        """The write side over these parts."""
        return Commands(self.history, self.site, self.clock)

    def requesting(self) -> Requesting:
        """What people may ask to be done, over these parts."""
        return Requesting(self.history, self.site, self.clock, self.live)

    def identities(self) -> Identities:
        """The doorkeeper over these parts."""
        return Identities(self.tokens, self.clock, self.session_key, self.web.session_s)
