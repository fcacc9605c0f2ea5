"""HTTP with log and metric stores: bounded in time and size, quiet about secrets, each failure of a kind and a remedy.

Stores differ in what they say when they refuse; what matters to us is whether to ask again, to wait, or to tell people.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx2

from relance.sources.unpacking import PackedError, TooLongError, unpacker

_SAID_CHARS = 300
_SECRET_CHARS = 3
_OK = 200
_BUSY = 429
_RIGHTS = frozenset({401, 403})
_TOO_MUCH = frozenset({413, 414, 431})
_REDIRECTS_FROM, _ERRORS_FROM, _SERVER_ERRORS_FROM = 300, 400, 500
_AGAIN_S = 5.0
"""How long a busy store is left alone that does not say for how long."""
_AGAIN_MOST_S = 300.0
"""A store is asked again after so long, whatever it or a proxy before it says: nothing of it is seen meanwhile."""
_SECONDS: Final = re.compile(r"\s*(\d{1,9})\s*", re.ASCII)


class StoreError(Exception):
    """A store gave no answer that can be used. The text says why and holds no secret; `remedy` says what mends it."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    @property
    def told(self) -> str:
        """What is wrong and what mends it, in one text for people."""
        return f"{self}; {self.remedy}" if self.remedy else str(self)


class StoreAwayError(StoreError):
    """It cannot be reached, does not answer in time, or says that it is not able to: to be asked again."""


class StoreBusyError(StoreError):
    """It asks to be left alone for `again_in_s` seconds."""

    def __init__(self, message: str, again_in_s: float) -> None:
        super().__init__(message, "raise the store's limits for this account, or the interval in the settings")
        self.again_in_s = again_in_s


class StoreRefusedError(StoreError):
    """It understood and refuses: a query that it does not take, a limit, a missing right."""


class StoreTooMuchError(StoreRefusedError):
    """It refuses because of a limit: what was asked for is to be asked for in smaller parts."""


class StoreAnswerError(StoreError):
    """What came is no answer of such a store: HTML, broken JSON, something longer than is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeSettings:
    """Where a store is, and how to talk to it.

    `headers` hold tenant and authorisation and are secret. `ca_file`, `cert_file` and `key_file` are PEM files; without
    a CA file the machine's own authorities count.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    answer_bytes: int = 64 * 1024 * 1024
    """Most of one answer that is read."""
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class Exchange:
    """One store. Redirects are not followed: the headers are for this address alone."""

    def __init__(self, settings: ExchangeSettings) -> None:
        """Talk to a store; raises StoreError for an address, header or certificate file that cannot be used."""
        self._settings = settings
        try:
            self.host = httpx2.URL(settings.url).host
            """Who is asked, for people: a path may be secret, too."""
            self._client = httpx2.AsyncClient(
                headers={"User-Agent": "relance", **settings.headers, "Accept-Encoding": "gzip"},
                timeout=settings.timeout_s,
                verify=_context(settings) if settings.url.startswith("https:") else False,
            )
        except httpx2.InvalidURL as error:
            raise StoreError(f"a url of a store is none: {error}", "write it as http://host:port/path") from error
        except UnicodeEncodeError:  # it holds the header's text
            message = f"a token or tenant for {self.host} has characters that no HTTP header takes"
            raise StoreError(message, "write it in ASCII") from None
        self._url = settings.url.rstrip("/")
        self._secrets = sorted(set(_secrets_of(settings)), key=len, reverse=True)
        self.told_at: datetime | None = None
        """The time by the store's own clock, or that of a proxy before it, when it answered last; None: not told."""

    async def post(
        self, path: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None, empty_as: str = ""
    ) -> bytes:
        """Send a form, as long queries need it, with more headers where a path has its own. Raises StoreError.

        An empty answer counts only if its content type has `empty_as` in it: many that are no store answer nothing.
        """
        request = self._client.build_request("POST", self._url + path, data=dict(form), headers=dict(headers or {}))
        return await self._send(request, empty_as)

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Ask for something. Raises StoreError."""
        return await self._send(self._client.build_request("GET", self._url + path, params=dict(params or {})))

    async def json(self, path: str, form: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON data
        """The JSON that a posted form is answered with. Raises StoreError."""
        return self.document(await self.post(path, form))

    def document(self, body: bytes) -> Any:  # noqa: ANN401 - JSON data
        """An answer as JSON data. Raises StoreAnswerError."""
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self._unlike(body) from error

    async def close(self) -> None:
        """Give the connections back; may be called twice."""
        await self._client.aclose()

    def _unlike(self, body: bytes) -> StoreAnswerError:
        html = body.lstrip()[:1] == b"<"
        what = "HTML, as from a proxy or a login page" if html else f"no JSON: {self._said(body)}"
        return StoreAnswerError(f"{self.host} answered with {what}", "see that the url is that of the store itself")

    async def _send(self, request: httpx2.Request, empty_as: str = "") -> bytes:
        try:
            async with asyncio.timeout(self._settings.timeout_s):  # the client's own limit is for each piece alone
                return await self._read(request, empty_as)
        except TimeoutError as error:
            message = f"{self.host} gave no whole answer within {self._settings.timeout_s:g} s"
            raise StoreAwayError(message, "see that the store is up and quick enough, or raise timeout_s") from error
        except httpx2.HTTPError as error:
            raise self._away(error) from error

    def _away(self, error: Exception) -> StoreAwayError:
        """Why nothing came, without the address and what was sent."""
        causes = list(_causes(error))
        untrusted = next((each for each in causes if isinstance(each, ssl.SSLCertVerificationError)), None)
        if untrusted is not None:
            message = f"{self.host} is not who it should be: {untrusted.verify_message}"
            return StoreAwayError(message, "give as ca_file the authority that signed its certificate")
        broken = next((each for each in causes if isinstance(each, ssl.SSLError)), None)
        if broken is not None:
            message = f"{self.host} cannot be asked over TLS: {broken.reason or 'broken'}"
            return StoreAwayError(message, "see that url, ca_file and cert_file are right")
        message = f"{self.host} cannot be asked: {type(error).__name__}"
        return StoreAwayError(message, "see that it runs and can be reached from here")

    async def _read(self, request: httpx2.Request, empty_as: str) -> bytes:
        response = await self._client.send(request, stream=True)
        self.told_at = _date_of(response.headers.get("Date", ""))
        most = self._settings.answer_bytes
        try:
            packed = unpacker(response.headers.get("Content-Encoding", ""), most)
            async for chunk in response.aiter_raw():
                packed.take(chunk)
            body = packed.whole()
        except TooLongError as error:
            message = f"{self.host} answered with more than {most} bytes"
            raise StoreAnswerError(message, "narrow what the settings select") from error
        except PackedError as error:
            raise StoreAnswerError(f"{self.host} answered with {error}", "look at the proxy before it") from error
        finally:
            await response.aclose()
        if response.status_code != _OK:
            raise self._refusal(response.status_code, body, response.headers.get("Retry-After", ""))
        if not body and empty_as not in response.headers.get("Content-Type", ""):
            raise self._unlike(body)
        return body

    def _said(self, body: bytes) -> str:
        """What a store said, fit for one line, without what only we should know."""
        text = _line_of(body)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text[:_SAID_CHARS] or "nothing"

    def _refusal(self, status: int, body: bytes, retry_after: str) -> StoreError:
        said = f"{self.host} answered HTTP {status}" + (f": {self._said(body)}" if body.strip() else "")
        if status == _BUSY:
            return StoreBusyError(said, _again_in_s(retry_after))
        if status >= _SERVER_ERRORS_FROM:
            return StoreAwayError(said, "look at the store's own log")
        if status in _TOO_MUCH:
            return StoreTooMuchError(said, "raise the limits of the store, or of the proxy before it")
        if status in _RIGHTS:
            return StoreRefusedError(said, "see that tenant, user and token in the settings are right")
        if status < _REDIRECTS_FROM:
            return StoreAnswerError(said, "see that the url is that of the store itself")
        if status < _ERRORS_FROM:
            return StoreRefusedError(said, "it sends us elsewhere: write that address into the settings")
        return StoreRefusedError(said, "see that the settings fit this store and its limits")


def _context(settings: ExchangeSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file is not None:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        message = f"a certificate for {httpx2.URL(settings.url).host} cannot be used: {error}"
        raise StoreError(message, "give PEM files") from error
    return context


def _again_in_s(retry_after: str) -> float:
    """For how many seconds a store asks to be left alone; the date that HTTP allows, too, stands by another clock."""
    found = _SECONDS.fullmatch(retry_after)
    return min(float(found[1]), _AGAIN_MOST_S) if found is not None else _AGAIN_S


def _line_of(body: bytes) -> str:
    """The beginning of a text on one line, without what a terminal would obey."""
    text = " ".join(body[: 8 * _SAID_CHARS].decode("utf-8", "replace").split())
    return "".join(char if char.isprintable() else "?" for char in text)


def _date_of(header: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        yield now
        now = now.__cause__ or now.__context__


def _secrets_of(settings: ExchangeSettings) -> Iterator[str]:
    """What a store, or who stands before it, may say back to us, and people should not read."""
    path = httpx2.URL(settings.url).path.strip("/")
    for secret in (path, *_authorisations(settings.headers)):
        if len(secret) >= _SECRET_CHARS:
            yield secret


def _authorisations(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        if name.lower() != "authorization":
            continue
        scheme, _, text = value.partition(" ")
        yield from (value, text)
        if scheme == "Basic":
            try:
                pair = base64.b64decode(text, validate=True).decode("utf-8", "replace")
            except (binascii.Error, ValueError):
                continue
            yield from (pair, pair.partition(":")[2])
