"""Both ways of telling people keep the same promises, each against a real receiver."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from relance.notifiers.commands import CommandNotifier
from relance.notifiers.webhooks import WebhookNotifier
from relance.ports.notifiers import NotifierError
from relance.testing.manual_clocks import ManualClock
from relance.testing.notifier_contract import NOTICE, NotifierContract, NotifierStand

RECEIVER = "import sys, pathlib; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read() + '\\n')"


class TestCommandNotifier(NotifierContract):
    @pytest.fixture
    def stand(self, tmp_path: Path) -> NotifierStand:
        mailbox = tmp_path / "mailbox"

        async def received() -> list[Mapping[str, Any]]:
            text = await asyncio.to_thread(mailbox.read_text, encoding="utf-8")
            return [json.loads(line) for line in text.splitlines()]

        return NotifierStand(
            working=CommandNotifier((sys.executable, "-c", RECEIVER, str(mailbox))),
            failing=CommandNotifier(("sh", "-c", "echo 'no such pager' >&2; exit 3")),
            stuck=CommandNotifier(("sh", "-c", "sleep 600 & wait"), time_limit_s=0.3),
            received=received,
        )

    async def test_the_error_has_the_commands_own_words(self, stand: NotifierStand) -> None:
        with pytest.raises(NotifierError, match="exit code 3: no such pager"):
            await stand.failing.notify(NOTICE)

    async def test_a_command_that_does_not_exist_is_an_error(self) -> None:
        with pytest.raises(NotifierError, match="No such file"):
            await CommandNotifier(("/nowhere/page",)).notify(NOTICE)

    async def test_a_command_that_reads_nothing_is_fine(self) -> None:
        await CommandNotifier(("true",)).notify(NOTICE)

    async def test_a_command_knows_nothing_of_our_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RELANCE_DATABASE_PASSWORD", "hunter2")
        seen = tmp_path / "seen"
        await CommandNotifier(("sh", "-c", f"env > {seen}")).notify(NOTICE)
        assert "hunter2" not in seen.read_text()
        assert "PATH=" in seen.read_text()

    async def test_a_command_that_is_too_slow_leaves_nothing_behind(self, tmp_path: Path) -> None:
        script, pids = tmp_path / "slow", tmp_path / "pids"
        script.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {pids}\nwait\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        with pytest.raises(NotifierError, match="longer than 1 s"):
            await CommandNotifier((str(script),), time_limit_s=1).notify(NOTICE)
        child = int(pids.read_text())
        assert not _lives(child)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")  # noqa: PTH110 - one more look at the same place


class Hook:
    """A receiver of web hooks on loopback that answers as it is told."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.requests: list[tuple[str, bytes]] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook/s3cret"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")
        )
        self.requests.append((head, await reader.readexactly(length)))
        if self.status:
            writer.write(f"HTTP/1.1 {self.status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
        else:
            await reader.read()
        writer.close()


class PassingClock(ManualClock):
    """Sleeping passes at once."""

    async def sleep(self, duration_s: float) -> None:
        self.advance(duration_s)


class TestWebhookNotifier(NotifierContract):
    @pytest.fixture
    async def stand(self) -> AsyncIterator[NotifierStand]:
        hooks = (Hook("204 No Content"), Hook("403 Forbidden"), Hook(""))
        urls = [await hook.start() for hook in hooks]
        working, failing, stuck = (
            WebhookNotifier(url, PassingClock(), token="t0ken", time_limit_s=0.2 if not hook.status else 10)
            for url, hook in zip(urls, hooks, strict=True)
        )

        async def received() -> list[Mapping[str, Any]]:
            return [json.loads(body) for _, body in hooks[0].requests]

        yield NotifierStand(working=working, failing=failing, stuck=stuck, received=received)
        for notifier in (working, failing, stuck):
            await notifier.close()
        for hook in hooks:
            await hook.stop()

    async def test_a_hook_that_is_busy_is_asked_again(self) -> None:
        hook, clock = Hook("503 Service Unavailable"), PassingClock()
        began = clock.monotonic()
        notifier = WebhookNotifier(await hook.start(), clock)
        with pytest.raises(NotifierError, match="HTTP 503"):
            await notifier.notify(NOTICE)
        assert len(hook.requests) == 4
        assert clock.monotonic() - began == 26
        assert all("idempotency-key: ntc-1" in head.lower() for head, _ in hook.requests)
        await notifier.close()
        await hook.stop()

    async def test_the_error_does_not_tell_the_hooks_secret_path(self) -> None:
        hook = Hook("404 Not Found")
        notifier = WebhookNotifier(await hook.start(), PassingClock(), token="t0ken")
        with pytest.raises(NotifierError) as raised:
            await notifier.notify(NOTICE)
        assert "s3cret" not in str(raised.value)
        assert "t0ken" not in str(raised.value)
        assert "authorization: bearer t0ken" in hook.requests[0][0].lower()
        assert len(hook.requests) == 1
        await notifier.close()
        await hook.stop()

    async def test_a_redirect_is_not_followed(self) -> None:
        hook = Hook("302 Found\r\nLocation: http://127.0.0.1:9/")
        notifier = WebhookNotifier(await hook.start(), PassingClock())
        with pytest.raises(NotifierError, match="HTTP 302"):
            await notifier.notify(NOTICE)
        await notifier.close()
        await hook.stop()
