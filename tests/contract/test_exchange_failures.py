"""What stands between us and a store may do anything; what we say of it is short, plain, and holds no secret."""

from __future__ import annotations

import asyncio
import base64
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest

from relance.bootstrap.proofs.asking_logs import Asked, ask_log_store
from relance.bootstrap.proofs.log_rows import log_rows
from relance.config.sources import LogStoreSettings
from relance.ports.clocks import SystemClock
from relance.sources.exchanges import Exchange, ExchangeSettings, StoreAnswerError, StoreAwayError, StoreError
from relance.sources.loki.stores import LokiStore
from relance.sources.stores.backs import Selection
from relance.sources.victorialogs.stores import VictoriaLogsStore
from tests.contract.loopback_services import Manner, Request, Service, answers

TOKEN = "hush-hush-0123456789"
JOB = Selection(labels={"job_id": ("1", "2")})


async def failure(manner: Manner, **headers: str) -> StoreError:
    async with Service(manner) as service:
        exchange = Exchange(ExchangeSettings(url=service.url, timeout_s=5, headers=headers))
        with pytest.raises(StoreError) as caught:
            await exchange.post("/api/v1/query", {"query": "up"})
        await exchange.close()
    return caught.value


async def echoes(request: Request, writer: asyncio.StreamWriter) -> None:
    """A proxy that answers with what it got."""
    await answers("400 Bad Request", f"cannot serve {request.head}".encode())(request, writer)


@pytest.mark.parametrize(
    ("header", "secrets"),
    [
        (f"Bearer {TOKEN}", [TOKEN]),
        (
            "Basic " + base64.b64encode(f"relance:{TOKEN}".encode()).decode(),
            [TOKEN, base64.b64encode(b"rela").decode()],
        ),
    ],
)
async def test_what_only_we_should_know_is_not_told_though_it_is_said_back(header: str, secrets: list[str]) -> None:
    error = await failure(echoes, Authorization=header)
    for told in (str(error), error.told, repr(error)):
        assert "cannot serve" in told
        assert "s3cret" not in told  # the path
        assert not any(secret in told for secret in secrets)


async def test_a_password_alone_is_not_told_either() -> None:
    header = "Basic " + base64.b64encode(f"relance:{TOKEN}".encode()).decode()
    error = await failure(answers("403 Forbidden", f"wrong password {TOKEN}".encode()), Authorization=header)
    assert TOKEN not in error.told


async def test_what_is_said_has_nothing_that_a_terminal_obeys() -> None:
    error = await failure(answers("500 Oh", b"\x1b]0;owned\x07\x1b[2Jgone\r\nnext\x00"))
    assert str(error).isprintable()


@pytest.mark.parametrize("header", ["Bearer h\u00fcsh-hush", "Bearer \u65e5\u672c"])
def test_a_token_that_no_header_takes_is_refused_without_being_told(header: str) -> None:
    with pytest.raises(StoreError) as caught:
        Exchange(ExchangeSettings(url="http://127.0.0.1:9", headers={"Authorization": header}))
    parts = [caught.value, caught.value.__cause__]
    assert not any(header[7:] in repr(part) for part in parts)


@pytest.mark.parametrize("url", ["http://[::::]", "http://h:x/", "http://h:99999999999"])
async def test_an_address_that_is_none_is_refused_or_away(url: str) -> None:
    with pytest.raises(StoreError):
        await Exchange(ExchangeSettings(url=url, timeout_s=2)).get("/")


@pytest.mark.parametrize("status", ["204 No Content", "206 Partial Content", "202 Accepted", "304 Not Modified"])
async def test_only_a_whole_answer_is_one(status: str) -> None:
    assert "HTTP" in str(await failure(answers(status)))


async def test_nothing_is_no_answer_unless_the_store_says_that_it_is() -> None:
    async with Service(answers("200 OK")) as service:
        for store in (LokiStore, VictoriaLogsStore):
            made = store(Exchange(ExchangeSettings(url=service.url)))
            with pytest.raises(StoreAnswerError):
                await made.page(JOB, 0, 10**18, 10)
            await made.close()
    async with Service(answers("200 OK", headers="Content-Type: application/stream+json\r\n")) as service:
        logs = VictoriaLogsStore(Exchange(ExchangeSettings(url=service.url)))
        assert (await logs.page(JOB, 0, 10**9, 10)).is_whole
        await logs.close()


async def test_a_store_tells_its_time_and_one_that_does_not_tells_none() -> None:
    date = "Date: Mon, 30 Nov 2026 12:00:00 GMT\r\n"
    for header, told in ((date, datetime(2026, 11, 30, 12, tzinfo=UTC)), ("", None), ("Date: soon\r\n", None)):
        async with Service(answers("200 OK", b"{}", header)) as service:
            exchange = Exchange(ExchangeSettings(url=service.url))
            await exchange.get("/")
            assert exchange.told_at == told
            await exchange.close()


def repeats(body: bytes) -> Manner:
    """The same page whatever is asked for, as a cache that knows no times."""
    return answers("200 OK", body, "Content-Type: application/stream+json\r\n")


LOKI_PAGE = (
    b'{"status":"success","data":{"resultType":"streams","result":[{"stream":{"job_id":"1"},'
    b'"values":[["%d","a"],["%d","b"]]}]}}'
)
VICTORIALOGS_PAGE = b'{"_time":"2026-11-30T12:00:00Z","_stream":"{job_id=\\"1\\"}","_msg":"a"}\n' * 2


@pytest.mark.parametrize(
    ("store", "page"), [(LokiStore, LOKI_PAGE % (10**18, 10**18 + 1)), (VictoriaLogsStore, VICTORIALOGS_PAGE)]
)
async def test_a_page_of_another_time_is_no_answer(store: type[LokiStore | VictoriaLogsStore], page: bytes) -> None:
    async with Service(repeats(page)) as service:
        made = store(Exchange(ExchangeSettings(url=service.url)))
        with pytest.raises(StoreAnswerError, match="other times"):
            await made.page(JOB, 2 * 10**18, 2 * 10**18 + 10**9, 2)
        await made.close()


async def test_a_store_that_does_not_divide_what_it_has_of_one_time_is_not_asked_for_ever() -> None:
    at = 10**18
    page = LOKI_PAGE % (at, at)
    async with Service(repeats(page)) as service:
        made = LokiStore(Exchange(ExchangeSettings(url=service.url)))
        found = await made.page(JOB, at, at + 10**9, 2)
        await made.close()
        assert len(service.requests) <= 210
    assert found.up_to_ns == at + 1


def _certify(key: Path, certificate: Path) -> None:
    """Make a certificate that vouches for itself."""
    subprocess.run(
        [
            shutil.which("openssl") or "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
        ],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip


@asynccontextmanager
async def secure_store(folder: Path) -> AsyncIterator[str]:
    """A service over TLS whose certificate no authority vouches for."""
    key, certificate = folder / "key.pem", folder / "cert.pem"
    await asyncio.to_thread(_certify, key, certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/s3cret"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
async def test_a_store_with_an_unknown_authority_is_told_with_what_mends_it(tmp_path: Path) -> None:
    async with secure_store(tmp_path) as url:
        stranger = Exchange(ExchangeSettings(url=url, headers={"Authorization": f"Bearer {TOKEN}"}))
        with pytest.raises(StoreAwayError) as caught:
            await stranger.get("/")
        await stranger.close()
        assert "ca_file" in caught.value.remedy
        assert "certificate" in str(caught.value)
        assert "s3cret" not in caught.value.told
        known = Exchange(ExchangeSettings(url=url, ca_file=str(tmp_path / "cert.pem")))
        assert await known.get("/") == b"{}"
        await known.close()


async def test_a_store_without_tls_where_it_should_have_it_is_told() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        exchange = Exchange(ExchangeSettings(url=url, timeout_s=10))
        with pytest.raises(StoreAwayError) as caught:
            await exchange.get("/")
        await exchange.close()
    assert "TLS" in str(caught.value)


@pytest.mark.parametrize(("year", "read"), [(2020, "behind ours"), (2090, "ahead of ours")])
async def test_a_check_tells_of_a_log_store_whose_clock_is_not_ours(year: int, read: str) -> None:
    date = f"Date: {format_datetime(datetime(year, 1, 1, tzinfo=UTC), usegmt=True)}\r\n"
    body = b'{"status":"success","data":[]}'
    async with Service(answers("200 OK", body, f"Content-Type: application/json\r\n{date}")) as service:
        store = LokiStore(Exchange(ExchangeSettings(url=service.url)))
        settings = LogStoreSettings(kind="loki", url=service.url)
        asked = Asked(cluster="alpha", since_s=60.0, watch_s=0.0, jobs=())
        found = await ask_log_store(store, settings, asked, SystemClock())
        await store.close()
    rows = {row.name: row for row in log_rows("loki", settings, found, SystemClock().now())}
    assert read in rows["clock"].read
    assert "time servers" in rows["clock"].remedy
