"""Mail to owners keeps the promises of a notifier, through a real command, and lets nobody add headers or options."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from relance.notifiers.mails import OwnerMailNotifier
from relance.ports.notifiers import NotifierError
from relance.testing.notifier_contract import NOTICE, NotifierContract, NotifierStand

RECEIVER = """\
import base64, json, pathlib, sys
letter = {"argv": sys.argv[2:], "body": base64.b64encode(sys.stdin.buffer.read()).decode()}
pathlib.Path(sys.argv[1]).open("a").write(json.dumps(letter) + "\\n")
"""


class Post:
    """A mail command that keeps what it is given."""

    def __init__(self, folder: Path) -> None:
        self._box = folder / "box"
        self._script = folder / "mail.py"
        self._script.write_text(RECEIVER)

    def command(self, *options: str) -> tuple[str, ...]:
        """The command with options of its own."""
        return (sys.executable, str(self._script), str(self._box), *options)

    def letters(self) -> list[tuple[list[str], bytes]]:
        """Arguments and standard input of each call."""
        lines = [json.loads(line) for line in self._box.read_text().splitlines()]
        return [(line["argv"], base64.b64decode(line["body"])) for line in lines]

    def messages(self) -> list[EmailMessage]:
        """The whole messages that came."""
        return [message_from_bytes(body, policy=policy.default) for _, body in self.letters()]


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(tmp_path)


class TestOwnerMailNotifier(NotifierContract):
    @pytest.fixture
    def stand(self, post: Post) -> NotifierStand:
        async def received() -> list[Mapping[str, Any]]:
            messages = await asyncio.to_thread(post.messages)
            return [
                {
                    "id": str(each["Message-ID"]).strip("<>").partition("@")[0],
                    "title": str(each["Subject"]).removeprefix("[relance] "),
                    "owner": str(each["To"]).partition("@")[0],
                }
                for each in messages
            ]

        return NotifierStand(
            working=OwnerMailNotifier(post.command(), to="{user}@example.org"),
            failing=OwnerMailNotifier(("sh", "-c", "echo 'no such user' >&2; exit 67")),
            stuck=OwnerMailNotifier(("sh", "-c", "sleep 600 & wait"), time_limit_s=0.3),
            received=received,
            whole=False,
        )

    async def test_the_error_has_the_commands_own_words(self, stand: NotifierStand) -> None:
        with pytest.raises(NotifierError, match="exit code 67: no such user"):
            await stand.failing.notify(NOTICE)

    async def test_a_whole_message_has_its_headers_and_no_more(self, post: Post) -> None:
        notifier = OwnerMailNotifier(post.command(), to="{user}@example.org", sender="relance@example.org")
        evil = replace(
            NOTICE, title="ended\nBcc: eve@example.org\r\n\r\nbody", text="one\n.\n~!reboot\nthree \x1b[31m\x00"
        )
        await notifier.notify(evil)
        (message,) = post.messages()
        assert set(message.keys()) == {
            "To", "From", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type",
            "Content-Transfer-Encoding", "MIME-Version",
        }  # fmt: skip
        assert (message["To"], message["From"]) == ("ada@example.org", "relance@example.org")
        assert message["Subject"] == "[relance] ended Bcc: eve@example.org body"
        text = message.get_content()
        assert "\x1b" not in text
        assert "\x00" not in text
        assert text.splitlines()[:3] == ["one", " .", " ~!reboot"]

    async def test_subject_and_address_are_single_arguments(self, post: Post) -> None:
        notifier = OwnerMailNotifier(post.command("-s", "{subject}", "{to}"))
        await notifier.notify(replace(NOTICE, title="--help $(reboot)\n`x`", text="größe\n"))
        ((argv, body),) = post.letters()
        assert argv == ["-s", "[relance] --help $(reboot) `x`", "ada"]
        assert body.decode() == "größe\n"

    @pytest.mark.parametrize(
        "owner", [None, "", "-f", "--help", "ada eve", "ada,eve", "ada\n", "ada@x", "a" * 65, "{user}"]
    )
    async def test_a_name_that_is_no_users_gets_no_mail(self, post: Post, owner: str | None) -> None:
        with pytest.raises(NotifierError, match="no address"):
            await OwnerMailNotifier(post.command("{to}")).notify(replace(NOTICE, owner=owner))
