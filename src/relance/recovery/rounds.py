"""What many incidents of a cluster ask alike in one round of the loop: asked once, until something is appended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Round:
    """The answers of one round. It ends with the round; nothing in it is older than that, or than our own append."""

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self._answers: dict[str, Any] = {}

    async def once(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, asked for now if it was not before."""
        if what not in self._answers:
            self._answers[what] = await ask()
        answer: T = self._answers[what]
        return answer

    def forget(self) -> None:
        """Something is appended: ask anew."""
        self._answers.clear()
