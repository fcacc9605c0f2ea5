from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from relance.bootstrap.announcers import open_announcers
from relance.bootstrap.sites import site_of
from relance.bootstrap.states import open_state
from relance.config import Settings
from relance.config.settings import MailSettings
from relance.domain import events as e
from relance.recovery import wordings
from relance.testing import history_values as values
from tests.served.worlds import ASKING, world

KEEPER = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2] + '\\n' + sys.stdin.read())"


async def test_the_settings_mail_command_gets_the_letter(tmp_path: Path) -> None:
    box = tmp_path / "box"
    settings = Settings.model_validate(
        {
            "state_dir": tmp_path / "state",
            "time_zone": "Europe/Paris",
            "notify": {
                "mail": {"command": [sys.executable, "-c", KEEPER, str(box), "{to}"], "to": "{user}@example.org"}
            },
        }
    )
    made = await world()
    (way,) = open_announcers(settings, open_state(settings), made.history, made.clock, made.parts.queries())
    way.announcer.position = await made.history.head()
    stopped = e.IncidentClosed(incident_id=ASKING, end=e.IncidentEnd.STOPPED, reason="enough", at=values.after(9))
    await made.append(values.job_stream("17"), stopped)
    await way.announcer.turn()
    to, *lines = box.read_text().splitlines()
    assert to == "ada@example.org"
    assert lines[0].startswith("What happened: Job 17 train ended and is not started again")
    assert "12:00:02 UTC (13:00 Paris)" in lines[0]
    assert len(lines) == 5


def test_the_sites_time_stands_beside_utc() -> None:
    site = site_of(Settings(state_dir=Path("/tmp/x"), time_zone="America/New_York"))
    assert wordings.moment_at_site(values.after(0), values.after(9), site.zone) == "12:00:00 UTC (07:00 New York)"
    assert wordings.moment_at_site(values.after(0), values.after(9), None) == "12:00:00 UTC"
    assert wordings.moment_at_site(None, values.after(9), site.zone) == "not known"


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../../etc/passwd", "/etc/localtime"])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(ValidationError, match="not a time zone of this machine"):
        Settings(state_dir=Path("/tmp/x"), time_zone=zone)


@pytest.mark.parametrize("to", ["ops@example.org", "-f{user}", "{user} eve", "{user},eve", "{user}\n"])
def test_an_address_that_is_not_one_is_refused(to: str) -> None:
    with pytest.raises(ValidationError, match="should be one address"):
        MailSettings(to=to)
