"""`relance-watchdog`: its command line, its life as a process, and its end."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relance.domain.stages import Stage
from relance.watchdog.alarms import Alarms, Log
from relance.watchdog.clocks import Clock
from relance.watchdog.metrics import health_text, metrics_text
from relance.watchdog.settings import SettingsError, WatchdogSettings, at_stage, read_settings
from relance.watchdog.watches import Watch, write_whole

if TYPE_CHECKING:
    from relance.watchdog.services import Page, Pages

DEFAULT_FILE = Path("/etc/relance/watchdog.toml")
LOCK_NAME = "watchdog.lock"
_NO_FOLDER, _TAKEN = -1, -2
DONE, FAILED, WRONG = 0, 1, 2
"""Exit codes: ended as told; an error, such as another watchdog at work; wrong settings or usage."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Watch until told to end. See `--help`."""
    options = _parser().parse_args(arguments)
    try:
        settings = read_settings(options.settings)
        if options.stage is not None:
            settings = at_stage(settings, Stage(options.stage))
    except SettingsError as error:
        sys.exit(_said(WRONG, str(error)))
    if options.check:
        sys.exit(_said(DONE, _summary(settings)))
    sys.exit(asyncio.run(_Process(settings, once=options.once).live()))


class _Process:
    """All watches, and what is around them."""

    def __init__(self, settings: WatchdogSettings, *, once: bool) -> None:
        self._settings = settings
        self._once = once
        self._clock = Clock()
        self._log = Log()
        self._is_unmetered = False
        self._locks: dict[Path, int] = {}
        self._code = DONE
        self._watches = tuple(
            Watch(cluster, settings.every_s, Alarms(cluster.name, self._log), self._clock)
            for cluster in settings.clusters
        )

    async def live(self) -> int:
        """Watch until a signal; gives the exit code."""
        loop, ending = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ending.set)
        if taken := self._lock_folders():
            return _said(FAILED, taken)
        try:
            pages = self._open_pages()
        except OSError as error:
            port = self._settings.metrics_port
            return _said(FAILED, f"metrics_port: {port} on 127.0.0.1 cannot be listened on: {error.strerror}")
        facts = {watch.cluster.name: watch.cluster.rules.stage.value for watch in self._watches}
        self._log.say(self._clock.now(), "info", "started", clusters=facts, pid=os.getpid())
        try:
            code = await self._watch_until(ending)
        finally:
            if pages is not None:
                pages.close()
        self._log.say(self._clock.now(), "info", "ended", exit_code=code)
        return code

    def _lock_folders(self) -> str:
        """Lock the folders that are not locked yet, as the controller makes them; gives which another watchdog has."""
        for cluster in self._settings.clusters:
            if self._locks.get(cluster.folder, -1) < 0:
                self._locks[cluster.folder] = _lock(cluster.folder)
        taken = [str(folder) for folder, lock in self._locks.items() if lock == _TAKEN]
        return f"another watchdog has {', '.join(taken)}: one for each controller's folder" if taken else ""

    async def _watch_until(self, ending: asyncio.Event) -> int:
        """Run all watches until the end is asked for, and a command that is out to its answer; gives the exit code."""
        watching = [asyncio.create_task(watch.round() if self._once else watch.run()) for watch in self._watches]
        telling, stop = asyncio.create_task(self._tell(ending)), asyncio.create_task(_woken(ending))
        rounds = asyncio.create_task(_all(watching))
        await asyncio.wait([stop, rounds], return_when=asyncio.FIRST_COMPLETED)
        is_meant = self._once or ending.is_set()
        for task in (*watching, telling, stop):
            task.cancel()
        await asyncio.gather(rounds, *watching, telling, stop, return_exceptions=True)
        self._write_metrics()
        return self._code if is_meant else FAILED

    async def _tell(self, ending: asyncio.Event) -> None:
        """Say that we live, and how we stand, between the rounds."""
        from relance.watchdog.services import Notifier, watchdog_pings  # noqa: PLC0415 - after the first round has begun

        notifier, pings = Notifier(os.environ), watchdog_pings(os.environ)
        notifier.say("READY=1")
        try:
            while True:
                await asyncio.sleep(min(self._settings.every_s, 5.0))
                self._write_metrics()
                if taken := self._lock_folders():
                    self._log.say(self._clock.now(), "error", taken)
                    ending.set()
                    self._code = FAILED
                    return
                if pings and health_text(self._watches, self._settings.every_s, self._clock.now())[0]:
                    notifier.say("WATCHDOG=1")
        finally:
            notifier.say("STOPPING=1")

    def _write_metrics(self) -> None:
        path = self._settings.metrics_file
        if path is None:
            return
        try:
            write_whole(path, metrics_text(self._watches, self._clock.now()), mode=0o644)
        except OSError as error:
            if not self._is_unmetered:
                self._log.say(self._clock.now(), "warning", "no metrics file", file=str(path), why=error.strerror)
            self._is_unmetered = True
        else:
            self._is_unmetered = False

    def _open_pages(self) -> Pages | None:
        if self._settings.metrics_port is None:
            return None
        from relance.watchdog.services import Pages  # noqa: PLC0415 - the HTTP server is loaded where it is wanted

        pages = Pages(self._settings.metrics_port, self._page)
        self._log.say(self._clock.now(), "info", "listening", address=f"127.0.0.1:{pages.port}")
        return pages

    def _page(self, path: str) -> Page | None:
        now = self._clock.now()
        if path == "/metrics":
            return 200, metrics_text(self._watches, now)
        if path == "/healthz":
            is_well, text = health_text(self._watches, self._settings.every_s, now)
            return (200 if is_well else 503), text
        return None


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)


async def _woken(event: asyncio.Event) -> None:
    await event.wait()


def _lock(folder: Path) -> int:
    """The lock of one watchdog; _NO_FOLDER where the folder cannot be used, which is an alarm, or _TAKEN."""
    try:
        number = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return _NO_FOLDER
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return _TAKEN
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relance-watchdog",
        description="Frees the jobs that a dead Relance controller holds, and saves those that it had taken. It reads "
        "the scheduler and the controller's ledger, and needs neither server nor database.",
        epilog="Exit codes: 0 ended as told, 1 error, 2 wrong settings or usage.",
    )
    parser.add_argument(
        "settings", nargs="?", type=Path, default=DEFAULT_FILE, help="its settings, TOML or JSON (default: %(default)s)"
    )
    stages = [stage.value for stage in Stage]
    parser.add_argument("--stage", choices=stages, help="watch at this stage, whatever the settings say")
    parser.add_argument("--once", action="store_true", help="make one round and end")
    parser.add_argument("--check", action="store_true", help="only read the settings and say what they come to")
    return parser


def _summary(settings: WatchdogSettings) -> str:
    return "\n".join(
        f"{cluster.name}: stage {cluster.rules.stage.value}, ledger in {cluster.folder}, "
        f"partitions {', '.join(cluster.rules.partitions) or 'all'}"
        for cluster in settings.clusters
    )


def _said(code: int, text: str) -> int:
    stream = sys.stdout if code == DONE else sys.stderr
    stream.write(f"{text}\n" if code == DONE else f"relance-watchdog: {text}\n")
    return code
