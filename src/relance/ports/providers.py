"""The port to attribution providers of third parties."""

from __future__ import annotations

from typing import Protocol

from relance.domain.verdicts import CaseFile, Verdict


class AttributionProvider(Protocol):
    """Something that can judge a case; the built-in attribution is one."""

    @property
    def name(self) -> str:
        """The provider's name, as shown beside its verdicts."""
        ...

    async def attribute(self, case: CaseFile) -> Verdict | None:
        """A verdict, or None when it has nothing to say."""
        ...
