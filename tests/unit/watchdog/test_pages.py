from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from relance.domain.stages import Stage
from relance.slurm.errors import SilentError
from relance.watchdog.metrics import health_text, metrics_text
from relance.watchdog.settings import Rules
from tests.unit.watchdog.grounds import taken
from tests.unit.watchdog.stands import Stand


def _samples(stand: Stand) -> dict[tuple[str, str], float]:
    """Each sample by its name and its labels beside the cluster."""
    found = {}
    for family in text_string_to_metric_families(metrics_text((stand.watch,), stand.clock.now())):
        for sample in family.samples:
            labels = ",".join(f"{key}={text}" for key, text in sorted(sample.labels.items()) if key != "cluster")
            found[sample.name.removeprefix("relance_watchdog_"), labels] = sample.value
    return found


async def test_what_it_did_and_how_it_stands_can_be_scraped(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.write(taken())
    await stand.rounds(2)
    found = _samples(stand)
    assert found["rounds_total", ""] == 2
    assert (found["stage", "stage=act"], found["stage", "stage=observe"]) == (1, 0)
    assert (found["ledger_usable", ""], found["scheduler_answers", ""], found["taken", ""]) == (1, 1, 1)
    assert found["deeds_total", "state=intended,verb=requeue"] == 1
    assert found["deeds_total", "state=done,verb=requeue"] == 1
    assert found["spool_untold", ""] == 1
    assert found["controller_sign_age_seconds", ""] == 130.0
    assert not any(value for (name, _), value in found.items() if name == "alarm")


async def test_each_alarm_is_a_sample_of_its_subject(tmp_path: Path) -> None:
    stand = Stand(tmp_path, Rules(stage=Stage.ACT))
    stand.scheduler.fails["jobs"] = SilentError("no answer")
    await stand.rounds()
    found = _samples(stand)
    assert (found["alarm", "subject=ledger"], found["ledger_usable", ""]) == (1, 0)
    assert found["alarm", "subject=stop"] == 0


async def test_it_is_well_while_its_rounds_go_on_whatever_they_find(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    now = stand.clock.now()
    assert health_text((stand.watch,), 5.0, now) == (False, "alpha: no round yet\n")
    await stand.rounds()
    is_well, text = health_text((stand.watch,), 5.0, now + timedelta(seconds=40))
    assert is_well
    assert "ledger: there is no ledger" in text
    is_well, text = health_text((stand.watch,), 5.0, now + timedelta(seconds=50))
    assert not is_well
    assert "50 s ago" in text
