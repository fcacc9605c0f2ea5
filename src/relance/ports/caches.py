"""The cache port: what can be computed again, kept so that it need not be."""

from __future__ import annotations

from typing import Final, Protocol


class Cache(Protocol):
    """Keeps bytes by name. Keeping is an offer: nothing may depend on it, and neither call ever fails."""

    def get(self, name: str) -> bytes | None:
        """What was kept under this name, unaltered; None if there is nothing, or nothing to be trusted."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Keep the bytes under this name, if that can be done. A name has letters, digits and dashes."""
        ...


class _NoCache:
    """Keeps nothing."""

    def get(self, name: str) -> bytes | None:
        return None

    def put(self, name: str, data: bytes) -> None:
        pass


NO_CACHE: Final[Cache] = _NoCache()
