"""Telling people: one follower of the history per way of telling, with its place kept in the state folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import structlog

from relance.bootstrap.sites import site_of
from relance.bootstrap.states import StateFolder, write_private
from relance.config import Settings, read_secret
from relance.notifiers.commands import CommandNotifier
from relance.notifiers.mails import OwnerMailNotifier
from relance.notifiers.webhooks import WebhookNotifier
from relance.ports.clocks import Clock
from relance.ports.histories import History
from relance.ports.notifiers import NoticeKind, Notifier
from relance.recovery.announcing import Announcer
from relance.recovery.letters import OwnerLetters, Telling
from relance.recovery.queries import Queries

_LOG = structlog.get_logger(__name__)
_SAVE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncerRole:
    """One way of telling, and the file that says up to where it has told."""

    name: str
    notifier: Notifier
    announcer: Announcer
    place: Path
    clock: Clock

    async def tell(self) -> None:
        """Tell from where the last run ended; a first run begins with what comes next."""
        await self.announcer.run(_read(self.place))

    async def keep_place(self) -> None:
        """Write down now and then up to where was told."""
        while True:
            await self.clock.sleep(_SAVE_S)
            self.save()

    def save(self) -> None:
        """Write down up to where was told. Where that cannot be done, a new start tells some things again."""
        if not self.announcer.position or self.announcer.position == _read(self.place):
            return
        try:
            write_private(self.place, f"{self.announcer.position}\n")
        except OSError as error:
            _LOG.warning("the place cannot be kept", way=self.name, file=str(self.place), error=error.strerror)

    async def close(self) -> None:
        """Save the place and close the notifier."""
        self.save()
        await self.notifier.close()


def open_announcers(
    settings: Settings, folder: StateFolder, history: History, clock: Clock, queries: Queries
) -> tuple[AnnouncerRole, ...]:
    """The ways of telling that the settings name. Raises SettingError for a secret that cannot be read.

    Mails to owners are written with what `queries` tells of a job.
    """
    ways: list[tuple[str, Notifier, Telling | None]] = []
    notify = settings.notify
    if notify.command:
        ways.append(("command", CommandNotifier(notify.command), None))
    if notify.webhook:
        token = read_secret(notify.webhook_token_file) if notify.webhook_token_file is not None else ""
        ways.append(("webhook", WebhookNotifier(notify.webhook, clock, token), None))
    if notify.mail.command:
        mail = notify.mail
        letters = OwnerLetters(queries, site_of(settings), frozenset(NoticeKind(kind) for kind in mail.events))
        ways.append(("mail", OwnerMailNotifier(mail.command, mail.to, mail.sender), letters))
    return tuple(
        AnnouncerRole(
            name=name,
            notifier=notifier,
            announcer=Announcer(history, notifier, clock, telling),
            place=folder.path / f"told-by-{name}",
            clock=clock,
        )
        for name, notifier, telling in ways
    )


def _read(place: Path) -> int | None:
    try:
        return int(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
