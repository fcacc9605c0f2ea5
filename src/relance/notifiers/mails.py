"""Mail to the owner of a job, by the mail command that the site has anyway."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import format_datetime

from relance.notifiers.runs import run
from relance.ports.notifiers import Notice, NotifierError

TO, SUBJECT = "{to}", "{subject}"
"""What stands for the address and the subject in a mail command."""
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
"""Names of users that may enter an address: none begins like an option or holds what separates addresses."""
_SUBJECT_CHARS = 160
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


class OwnerMailNotifier:
    """Implements `relance.ports.notifiers.Notifier` by one mail to the notice's owner, one at a time.

    A command with `{to}` in it gets subject and address as arguments and the text on standard input, as mail(1) does;
    one without gets a whole message with its headers, as `sendmail -t -i` does.
    """

    def __init__(
        self, command: Sequence[str], to: str = "{user}", sender: str = "", time_limit_s: float = 30.0
    ) -> None:
        """Mail by `command`, an argument list, to the address that `to` makes of the owner's name."""
        if not command:
            message = "the mail command may not be empty"
            raise ValueError(message)
        self._command = tuple(command)
        self._to = to
        self._sender = sender
        self._time_limit_s = time_limit_s
        self._turn = asyncio.Lock()

    async def notify(self, notice: Notice) -> None:
        if notice.owner is None or not _USER.fullmatch(notice.owner):
            raise NotifierError(f"there is no address for the owner {notice.owner!r}")
        to = self._to.replace("{user}", notice.owner)
        subject = f"[relance] {_one_line(notice.title)}"[:_SUBJECT_CHARS]
        argv = tuple(part.replace(TO, to).replace(SUBJECT, subject) for part in self._command)
        is_told_by_arguments = any(TO in part for part in self._command)
        data = _body(notice.text).encode() if is_told_by_arguments else self._message(notice, to, subject)
        async with self._turn:
            await run(argv, data, self._time_limit_s)

    async def close(self) -> None:
        """Nothing is held between mails."""

    def _message(self, notice: Notice, to: str, subject: str) -> bytes:
        message = EmailMessage()
        message["To"] = to
        if self._sender:
            message["From"] = self._sender
        message["Subject"] = subject
        message["Date"] = format_datetime(notice.at)
        message["Message-ID"] = f"<{notice.id}@relance>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(_body(notice.text))
        return bytes(message)


def _one_line(text: str) -> str:
    return _seen(" ".join(text.split()))


def _body(text: str) -> str:
    """The text without what steers a terminal; no line begins with what a mail program would take for an order."""
    lines = (f" {line}" if line.startswith(("~", ".")) else line for line in _seen(text).splitlines())
    return "\n".join(lines) + "\n"


def _seen(text: str) -> str:
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in _UNSEEN and char not in "\n\t" else char
        for char in text
    )
