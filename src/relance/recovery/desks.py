"""A desk: one outside provider with its time limit, its circuit breaker and its counts. Whatever it does stays here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from relance.domain.verdicts import Opinion
from relance.ports.clocks import Clock
from relance.ports.providers import AttributionProvider, NotAnswerableError, ProviderError, ProviderQuestion
from relance.recovery.breakers import Breaker, BreakerState

_ERROR_CHARS = 300
_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskState:
    """How a provider is doing since the server's start. `left_alone_s` in seconds, 0 where it is asked."""

    name: str
    state: BreakerState
    opinions: int = 0
    nothing_said: int = 0
    not_answerable: int = 0
    errors: int = 0
    left_out: int = 0
    """Questions that were not put: it was left alone, or too many waited."""
    left_alone_s: float = 0.0
    last_error: str = ""


class Desk:
    """Puts questions to one provider, and never raises what comes of it."""

    def __init__(self, provider: AttributionProvider, clock: Clock, limit_s: float) -> None:
        """Ask `provider`, which is given up after `limit_s` whatever limit it keeps itself."""
        self._provider = provider
        self._limit_s = limit_s
        self._breaker = Breaker(clock)
        self._opinions = self._nothing_said = self._not_answerable = self._errors = self._left_out = 0
        self._last_error = ""
        self.name = provider.name

    @property
    def state(self) -> DeskState:
        """How the provider is doing."""
        return DeskState(
            name=self.name,
            state=self._breaker.state,
            opinions=self._opinions,
            nothing_said=self._nothing_said,
            not_answerable=self._not_answerable,
            errors=self._errors,
            left_out=self._left_out,
            left_alone_s=self._breaker.left_alone_s,
            last_error=self._last_error,
        )

    def leave_out(self) -> None:
        """Count a question that is not put."""
        self._left_out += 1

    async def ask(self, question: ProviderQuestion) -> Opinion | None:
        """The provider's opinion; None when it gave none, for whatever reason."""
        if not self._breaker.admits():
            self.leave_out()
            return None
        try:
            opinion = await self._answer(question)
        except NotAnswerableError as error:
            self._breaker.succeeded()
            self._not_answerable += 1
            self._note(error)
            return None
        except ProviderError as error:
            self._breaker.failed()
            self._errors += 1
            self._note(error)
            return None
        except BaseException:
            self._breaker.withdrawn()
            raise
        self._breaker.succeeded()
        self._opinions += opinion is not None
        self._nothing_said += opinion is None
        return opinion

    async def close(self) -> None:
        """Close the provider; what goes wrong with it is logged."""
        try:
            await self._provider.close()
        except Exception as error:  # noqa: BLE001 - other people's code may not keep the server from closing
            _LOG.warning("a provider did not close", provider=self.name, error=repr(error))

    async def _answer(self, question: ProviderQuestion) -> Opinion | None:
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._provider.ask(question)
        except ProviderError:
            raise
        except TimeoutError as error:
            raise ProviderError(f"no answer within {self._limit_s:g} s") from error
        except Exception as error:
            # other people's code; its message may hold anything
            raise ProviderError(f"it failed with {type(error).__name__}") from error

    def _note(self, error: ProviderError) -> None:
        self._last_error = str(error)[:_ERROR_CHARS]
        state = self._breaker.state.value
        _LOG.warning("no opinion of a provider", provider=self.name, state=state, error=self._last_error)
