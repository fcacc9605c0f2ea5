from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relance.controllers.slurm.defects import Release, known_defects
from relance.controllers.slurm.fitness import Fitness, Level, Rights, fitness
from relance.controllers.slurm.inspections import one_job
from relance.controllers.slurm.powers import asked_for, refused_commands, refuses
from relance.controllers.slurm.sites import facts_of
from relance.controllers.slurm.skews import skew, time_of
from relance.controllers.slurm.states import is_down, is_drained, plan_of
from relance.domain.requests import RequestKind
from relance.slurm.parsing.settings import parse_settings
from relance.slurm.site_records import ControlFacts, SlurmNode
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
    old = {"known_defects"} if release != "25.11" else set()
    warned = {name for name, level in found.items() if level is Level.WARN}
    assert warned == {"min_job_age", "job_file_append", *old}
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
        (
            "window",
            {"cred_expire_s": 29},
            Level.WARN,
            "run relance-watchdog beside the controller, or take cred_expire",
        ),
        ("window", {"cred_expire_s": 30}, Level.WARN, "cred_expire"),
        ("window", {"cred_expire_s": 60}, Level.OK, ""),
        ("window", {"scheduler_parameters": {"requeue_delay": "0"}}, Level.WARN, "run relance-watchdog"),
        ("window", {"scheduler_parameters": {"requeue_delay": "90"}, "cred_expire_s": 5}, Level.OK, ""),
        (
            "expedited_requeue",
            {"controller_parameters": ("enable_expedited_requeue",)},
            Level.WARN,
            "--requeue the jobs",
        ),
        ("expedited_requeue", {"scheduler_parameters": {"enable_expedited_requeue": ""}}, Level.WARN, "--requeue"),
        ("dependencies", {"scheduler_parameters": {"kill_invalid_depend": ""}}, Level.WARN, "SchedulerParameters"),
        ("dependencies", {"dependency_parameters": ("kill_invalid_depend",)}, Level.WARN, "DependencyParameters"),
        ("known_defects", {"release": "25.11.7"}, Level.OK, ""),
        ("known_defects", {"release": "25.11.4"}, Level.WARN, "25.11.5"),
        ("known_defects", {"release": "devel"}, Level.WARN, "scontrol --version"),
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
    lacks = facts_of(facts(accounting_type=None, min_job_age_s=30), OPERATOR).lacks
    assert len(lacks) == 2
    assert "slurmdbd" in lacks[0]
    assert "MinJobAge=3600 in slurm.conf" in lacks[1]


def test_what_is_only_worse_than_it_could_be_closes_nothing() -> None:
    assert facts_of(facts(job_requeue=False, requeue_exit="1"), OPERATOR).lacks == ()


def test_a_delay_of_the_site_is_the_window_that_the_controller_counts_with() -> None:
    assert facts_of(facts(), OPERATOR).requeue_delay_s == 121.0
    assert facts_of(facts(scheduler_parameters={"requeue_delay": "45"}), OPERATOR).requeue_delay_s == 46.0


@pytest.mark.parametrize(
    ("release", "mended"),
    [
        ((22, 5, 8), ["23.02.0", "23.02.2", "23.02.5", "24.05.5", "24.11.6", "25.11.3", "25.11.5"]),
        ((24, 5, 5), ["24.11.6", "25.11.3", "25.11.5"]),
        ((24, 11, 0), ["24.11.6", "25.11.3", "25.11.5"]),
        ((25, 5, 0), ["25.11.3", "25.11.5"]),
        ((25, 11, 2), ["25.11.3", "25.11.3", "25.11.5"]),
        ((25, 11, 5), []),
    ],
)
def test_a_defect_is_in_what_is_older_than_its_mending(release: Release, mended: list[str]) -> None:
    assert [each.mended_in.split(" and ")[0] for each in known_defects(release)] == mended


def test_each_defect_of_a_release_is_said_with_where_it_was_mended() -> None:
    found = [item for item in fitness(facts(release="24.11.2"), OPERATOR) if item.name == "known_defects"]
    assert [item.remedy.rpartition(" ")[2] for item in found] == ["25.05.0", "25.11.3", "25.11.5"]
    assert found[0].text == "slurmctld may crash when many jobs are requeued under heavy load"
    assert found[0].remedy == "mended in Slurm 24.11.6 and 25.05.0"
    assert facts_of(facts(release="24.11.2"), OPERATOR).lacks == ()


@pytest.mark.parametrize(
    ("shown", "level", "words"),
    [
        ("12:00:00", Level.OK, "agree"),
        ("11:59:58", Level.OK, "agree"),
        ("12:00:05", Level.WARN, "5 s ahead of ours"),
        ("11:59:50", Level.WARN, "9 s behind ours"),
        ("12:00:40", Level.BLOCKS_ACT, "40 s ahead of ours"),
        ("11:58:00", Level.BLOCKS_ACT, "119 s behind ours"),
    ],
)
def test_clocks_that_do_not_agree_are_told_by_how_much(shown: str, level: Level, words: str) -> None:
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    seen = int(datetime.fromisoformat(f"2026-11-30T{shown}+00:00").timestamp())
    found = skew(seen, noon, noon + timedelta(milliseconds=200))
    assert found.level is level
    assert words in found.text
    assert bool(found.remedy) == (level is not Level.OK)


def test_the_clock_of_slurmctld_is_read_from_its_own_answer() -> None:
    answer = b"****\nsdiag output at Mon Nov 30 12:00:05 2026 (1796040005)\nData since      x (1796000000)\n"
    assert time_of(answer) == 1796040005
    assert time_of(b"") is None
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert skew(None, noon, noon).level is Level.WARN


@pytest.mark.parametrize(
    ("rights", "level", "words"),
    [
        (OPERATOR, Level.OK, "nothing that Relance does would be refused"),
        (PLAIN, Level.WARN, "refused for jobs of others: scontrol requeue, scontrol update"),
        (replace(PLAIN, coordinates=("physics",)), Level.WARN, "outside of physics: scontrol requeue"),
        (replace(PLAIN, admin_level=None), Level.WARN, "cannot be told"),
    ],
)
def test_what_would_be_refused_is_told_by_the_name_of_the_command(rights: Rights, level: Level, words: str) -> None:
    found = refused_commands(facts(), rights)
    assert found.level is level
    assert words in found.text


@pytest.mark.parametrize(
    ("allowed", "rights", "level", "words"),
    [
        ({RequestKind.HOLD_JOBS, RequestKind.RESERVE_NODES}, OPERATOR, Level.OK, "in the account's power"),
        ({RequestKind.DRAIN_NODES}, OPERATOR, Level.WARN, "relance is no administrator"),
        ({RequestKind.RESERVE_NODES}, replace(PLAIN, coordinates=("physics",)), Level.WARN, "is no operator"),
        ({RequestKind.HOLD_JOBS}, replace(PLAIN, coordinates=("physics",)), Level.OK, "in the account's power"),
        ({RequestKind.CANCEL_JOBS}, PLAIN, Level.WARN, "Slurm would refuse scancel"),
        ({RequestKind.HOLD_JOBS}, replace(PLAIN, admin_level=None), Level.WARN, "cannot be told"),
        (set(), OPERATOR, Level.OK, "people can ask for nothing here"),
    ],
)
def test_what_people_may_ask_for_is_held_against_the_account_s_rights(
    allowed: set[RequestKind], rights: Rights, level: Level, words: str
) -> None:
    found = asked_for(allowed, rights)
    assert found.level is level
    assert words in found.text


def test_what_is_refused_is_told_to_the_server_by_its_setting() -> None:
    assert dict(refuses(OPERATOR)).keys() == {"drain_nodes"}
    assert dict(refuses(replace(PLAIN, coordinates=("physics",)))).keys() == {"reserve_nodes", "drain_nodes"}
    assert dict(refuses(PLAIN)).keys() == {"hold_jobs", "cancel_jobs", "reserve_nodes", "drain_nodes"}


@pytest.mark.parametrize(
    ("states", "drained", "down", "plan"),
    [
        (("IDLE",), False, False, ""),
        (("MIXED", "DRAIN"), True, False, ""),
        (("IDLE", "MAINTENANCE"), False, False, ""),
        (("IDLE", "POWERING_UP"), False, False, "powering_up"),
        (("DOWN", "DRAIN", "REBOOT_ISSUED"), True, True, "reboot_issued"),
        (("DOWN", "MAINTENANCE"), False, True, ""),
        (("ALLOCATED", "FAIL"), True, False, ""),
    ],
)
def test_a_node_s_base_state_and_flags_are_told_apart(
    states: tuple[str, ...], drained: bool, down: bool, plan: str
) -> None:
    node = SlurmNode(name="n1", states=states)
    assert (is_drained(node), is_down(node), plan_of(node)) == (drained, down, plan)


def test_private_data_is_told_by_the_commands_that_leave_it_out() -> None:
    assert "squeue, sacct would leave out" in refused_commands(facts(private_data=("jobs",)), PLAIN).text
    assert "leave out" not in refused_commands(facts(), PLAIN).text


def test_a_job_that_takes_too_long_to_read_blocks_act() -> None:
    assert one_job(0.05, 4000).level is Level.OK
    assert one_job(0.79, 4000).level is Level.OK
    slow = one_job(0.81, 4000)
    assert slow.level is Level.BLOCKS_ACT
    assert slow.remedy
    assert slow.read == "one of 4000 jobs read in 810 ms"
