"""The port to attribution providers of third parties: they are asked after our own verdict, and add to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from relance.domain.verdicts import CaseFile, Opinion, Verdict

CAUSE_CHARS = 120
TEXT_CHARS = 2000
NODE_CHARS = 253
SUSPECTS = 64
"""Most that is kept of an opinion: characters of its cause, of its text, of a node's name; nodes that it names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderQuestion:
    """What a provider is asked about. Excerpts in it are masked already.

    `user` is the job's owner; `log_paths` are the job's own logs, absolute, the main one first. `is_over` says that
    the attempt has ended, so that its logs will not grow.
    """

    case: CaseFile
    verdict: Verdict
    user: str = ""
    log_paths: tuple[str, ...] = ()
    is_over: bool = False


class ProviderError(Exception):
    """A provider did not give an answer that can be used. The text says why and holds no secret."""


class NotAnswerableError(ProviderError):
    """This question cannot be answered, which says nothing against the provider's health."""


class AttributionProvider(Protocol):
    """Something outside that can judge a case, beside our own attribution."""

    @property
    def name(self) -> str:
        """The provider's name, as shown beside its opinions."""
        ...

    async def ask(self, question: ProviderQuestion) -> Opinion | None:
        """An opinion, or None when it has nothing to say. Raises ProviderError. May be cancelled at any time."""
        ...

    async def close(self) -> None:
        """Give back what is held; may be called twice."""
        ...
