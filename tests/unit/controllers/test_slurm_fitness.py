from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.controllers.slurm.fitness import Fitness, Level, Rights, fitness
from relance.controllers.slurm.inspections import one_job
from relance.controllers.slurm.sites import facts_of
from relance.slurm.parsing.settings import parse_settings
from relance.slurm.site_records import ControlFacts
from tests.unit.slurm.recorded import RELEASES, recorded

OPERATOR = Rights(user="relance", uid=990, admin_level="operator")
PLAIN = Rights(user="relance", uid=990, admin_level="none")


def facts(recording: str = "25.11", **changes: Any) -> ControlFacts:  # noqa: ANN401 - fields of many types
    """The recorded settings of a release, some of them changed."""
    return replace(parse_settings(recorded(recording, "scontrol-show-config.txt")), **changes)


def point(name: str, rights: Rights = OPERATOR, **changes: Any) -> Fitness:  # noqa: ANN401 - the same
    """The finding of that name."""
    (found,) = [item for item in fitness(facts(**changes), rights) if item.name == name]
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_a_recorded_cluster_of_each_release_is_fit_for_an_operator(release: str) -> None:
    found = {item.name: item.level for item in fitness(facts(release), OPERATOR)}
    assert {name for name, level in found.items() if level is Level.WARN} == {"min_job_age", "job_file_append"}
    assert all(level.allows_act for level in found.values())
    assert facts_of(facts(release), OPERATOR).lacks == ()


def test_every_finding_says_what_was_read_and_what_is_wrong_has_a_remedy() -> None:
    worst = facts(
        release="22.01.1", min_job_age_s=10, cred_expire_s=5, accounting_type=None, accounting_store_flags=(),
        job_requeue=False, job_file_append=False, requeue_exit="1-9", has_federation=True, kill_wait_s=600,
        private_data=("jobs",), scheduler_parameters={"kill_invalid_depend": ""},
    )  # fmt: skip
    for item in fitness(worst, PLAIN):
        assert item.read
        assert item.text
        assert item.remedy or item.level is Level.OK or item.name == "preemption"


@pytest.mark.parametrize(
    ("rights", "level", "words"),
    [
        (OPERATOR, Level.OK, "may restart everybody's jobs"),
        (replace(OPERATOR, admin_level="administrator"), Level.OK, "may restart everybody's jobs"),
        (replace(PLAIN, coordinates=("physics",)), Level.WARN, "no other account: enough for a pilot"),
        (PLAIN, Level.BLOCKS_ACT, "right for observe, where it cannot act by construction"),
        (Rights(user="root", uid=0, admin_level="administrator"), Level.BLOCKS_OBSERVE, "may do everything"),
        (replace(PLAIN, admin_level=None), Level.UNREADABLE, "cannot be read"),
    ],
)
def test_the_account_decides_what_is_possible(rights: Rights, level: Level, words: str) -> None:
    found = point("account", rights)
    assert found.level is level
    assert words in found.text


def test_a_user_that_accounting_does_not_know_is_to_be_added_and_a_known_one_modified() -> None:
    assert "sacctmgr modify user where name=relance set adminlevel=operator" in point("account", PLAIN).remedy
    unknown = point("account", replace(PLAIN, is_known=False))
    assert "sacctmgr add user relance account=… adminlevel=operator" in unknown.remedy
    assert unknown.read == "relance, not known to accounting"


def test_the_scheduler_s_own_account_is_refused_like_root() -> None:
    as_slurm = Rights(user="slurm", uid=64030, admin_level="administrator")
    assert point("account", as_slurm, slurm_user="slurm", slurm_uid=64030).level is Level.BLOCKS_OBSERVE
    assert point("account", as_slurm, slurm_user="other name", slurm_uid=64030).level is Level.BLOCKS_OBSERVE


@pytest.mark.parametrize(
    ("name", "changes", "level", "remedy"),
    [
        ("release", {"release": "21.08.8"}, Level.WARN, "update Slurm before act"),
        ("release", {"release": "26.05.1"}, Level.WARN, "stay in observe"),
        ("release", {"release": "devel"}, Level.UNREADABLE, "scontrol --version"),
        ("min_job_age", {"min_job_age_s": 0}, Level.OK, ""),
        ("min_job_age", {"min_job_age_s": 3600}, Level.OK, ""),
        ("min_job_age", {"min_job_age_s": 300}, Level.WARN, "MinJobAge=3600"),
        ("min_job_age", {"min_job_age_s": 120}, Level.WARN, "MinJobAge=3600"),
        ("min_job_age", {"min_job_age_s": 59}, Level.BLOCKS_ACT, "MinJobAge=3600"),
        ("min_job_age", {"min_job_age_s": None}, Level.WARN, "MinJobAge=3600"),
        ("accounting", {"accounting_type": "accounting_storage/none"}, Level.BLOCKS_ACT, "slurmdbd"),
        ("accounting", {"accounting_type": None}, Level.BLOCKS_ACT, "slurmdbd"),
        ("store_flags", {"accounting_store_flags": ()}, Level.WARN, "AccountingStoreFlags=job_comment"),
        ("job_requeue", {"job_requeue": False}, Level.WARN, "JobRequeue=1"),
        ("job_requeue", {"job_requeue": None}, Level.WARN, ""),
        ("job_file_append", {"job_file_append": True}, Level.OK, ""),
        ("requeue_exit", {"requeue_exit": "100"}, Level.WARN, "take the codes out"),
        ("requeue_exit", {"requeue_exit_hold": "101"}, Level.WARN, "take the codes out"),
        ("window", {"cred_expire_s": 29}, Level.BLOCKS_ACT, "cred_expire"),
        ("window", {"cred_expire_s": 30}, Level.WARN, "cred_expire"),
        ("window", {"cred_expire_s": 60}, Level.OK, ""),
        ("dependencies", {"scheduler_parameters": {"kill_invalid_depend": ""}}, Level.WARN, "kill_invalid_depend"),
        ("licences", {"release": "25.05.2"}, Level.WARN, "25.11.7"),
        ("licences", {"release": "25.11.6"}, Level.WARN, "25.11.7"),
        ("licences", {"release": "24.11.7"}, Level.OK, ""),
        ("federation", {"has_federation": True}, Level.BLOCKS_ACT, "no federated cluster"),
        ("federation", {"federation": "coast"}, Level.BLOCKS_ACT, "no federated cluster"),
        ("federation", {"federation": None}, Level.UNREADABLE, "scontrol show federation"),
        ("kill_wait", {"kill_wait_s": 600}, Level.WARN, "KillWait=30"),
        ("preemption", {"preempt_mode": "GANG,REQUEUE"}, Level.WARN, ""),
        ("preemption", {"preempt_mode": "CANCEL"}, Level.WARN, ""),
    ],
)
def test_each_setting_has_its_meaning(name: str, changes: dict[str, Any], level: Level, remedy: str) -> None:
    found = point(name, **changes)
    assert found.level is level
    assert remedy in found.remedy
    assert bool(found.remedy) == bool(remedy)


@pytest.mark.parametrize(
    ("private", "rights", "level"),
    [
        (("jobs",), PLAIN, Level.BLOCKS_OBSERVE),
        (("all",), PLAIN, Level.BLOCKS_OBSERVE),
        (("usage",), PLAIN, Level.WARN),
        (("accounts",), PLAIN, Level.OK),
        (("jobs", "usage"), OPERATOR, Level.OK),
    ],
)
def test_private_jobs_hide_them_from_a_plain_account(private: tuple[str, ...], rights: Rights, level: Level) -> None:
    assert point("private_data", rights, private_data=private).level is level


def test_what_blocks_acting_closes_the_gate_of_rights_with_its_remedy() -> None:
    lacks = facts_of(facts(cred_expire_s=10, min_job_age_s=30), OPERATOR).lacks
    assert len(lacks) == 2
    assert "MinJobAge=3600 in slurm.conf" in lacks[0]
    assert "take cred_expire out of AuthInfo" in lacks[1]


def test_what_is_only_worse_than_it_could_be_closes_nothing() -> None:
    assert facts_of(facts(job_requeue=False, requeue_exit="1"), OPERATOR).lacks == ()


def test_a_job_that_takes_too_long_to_read_blocks_act() -> None:
    assert one_job(0.05, 4000).level is Level.OK
    assert one_job(0.79, 4000).level is Level.OK
    slow = one_job(0.81, 4000)
    assert slow.level is Level.BLOCKS_ACT
    assert slow.remedy
    assert slow.read == "one of 4000 jobs read in 810 ms"
