from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.slurm.errors import UnreadableError
from relance.slurm.parsing.settings import parse_settings
from relance.slurm.parsing.sites import parse_nodes, parse_reservations
from tests.unit.slurm.recorded import RELEASES, SCENES, recorded

RESERVATION = b"""ReservationName=window StartTime=1796048116 EndTime=1796051716 Duration=01:00:00
   Nodes=gpu[001-002] NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
   TRES=cpu=4
   Users=root,ada Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

"""


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_of_each_release(release: str) -> None:
    nodes = parse_nodes(recorded(release, SCENES[1], "scontrol-show-node.txt"))
    assert [node.name for node in nodes] == [f"gpu00{number}" for number in range(1, 7)]
    lost = nodes[5]
    assert lost.states == ("DOWN", "NOT_RESPONDING")
    assert (lost.reason, lost.reason_by) == ("Not responding", "root")
    assert lost.reason_at is not None
    assert lost.partitions == ("train",)
    assert nodes[0].reason is None


@pytest.mark.parametrize(
    ("shown", "states"),
    [
        ("IDLE", ("IDLE",)),
        ("DOWN+DRAIN+REBOOT_ISSUED", ("DOWN", "DRAIN", "REBOOT_ISSUED")),
        ("DOWN*+DRAIN", ("DOWN", "DRAIN", "NOT_RESPONDING")),
        ("IDLE~", ("IDLE", "POWERED_DOWN")),
        ("MIXED-", ("MIXED", "PLANNED")),
    ],
)
def test_states_of_a_node(shown: str, states: tuple[str, ...]) -> None:
    recording = recorded("25.11", SCENES[0], "scontrol-show-node.txt")
    assert parse_nodes(recording.replace(b"State=IDLE ", f"State={shown} ".encode()))[2].states == states


def test_a_reason_with_fields_and_lines_in_it_stays_a_reason() -> None:
    recording = recorded("25.11", SCENES[1], "scontrol-show-node.txt")
    hostile = b"Reason=Xid 79 State=IDLE Partitions=all\n          see [ticket] 5 [ada@1796048116]"
    node = parse_nodes(recording.replace(b"Reason=Not responding [root@2026-11-29T15:35:38]", hostile))[5]
    assert node.states == ("DOWN", "NOT_RESPONDING")
    assert node.reason == "Xid 79 State=IDLE Partitions=all see [ticket] 5"
    assert (node.reason_by, node.reason_at) == ("ada", 1796048116)


def test_a_reason_that_ends_in_what_only_looks_like_a_name_and_a_time_stays_one() -> None:
    recording = recorded("25.11", SCENES[1], "scontrol-show-node.txt")
    odd = b"Reason=ask [ada@desk]"
    node = parse_nodes(recording.replace(b"Reason=Not responding [root@2026-11-29T15:35:38]", odd))[5]
    assert (node.reason, node.reason_by, node.reason_at) == ("ask [ada@desk]", None, None)


@pytest.mark.parametrize("name", ["KillWait", "JobRequeue"])
def test_a_setting_that_nothing_rests_on_makes_the_others_no_less_readable(name: str) -> None:
    recording = recorded("25.11", "scontrol-show-config.txt").decode()
    facts = parse_settings(re.sub(rf"^{name} .*$", f"{name} = soon", recording, flags=re.MULTILINE).encode())
    assert facts.min_job_age_s == 300
    assert None in (facts.kill_wait_s, facts.job_requeue)


def test_a_reservation() -> None:
    (reservation,) = parse_reservations(RESERVATION)
    assert (reservation.name, reservation.starts_at, reservation.ends_at) == ("window", 1796048116, 1796051716)
    assert (reservation.nodes, reservation.flags) == (("gpu001", "gpu002"), ("MAINT", "SPEC_NODES"))
    assert (reservation.users, reservation.accounts, reservation.node_count) == (("root", "ada"), (), 2)


def test_no_reservations_is_slurms_own_sentence() -> None:
    assert parse_reservations(b"No reservations in the system\n") == ()
    with pytest.raises(UnreadableError):
        parse_reservations(b"")


def test_a_block_with_a_key_twice_is_unreadable() -> None:
    with pytest.raises(UnreadableError, match="twice"):
        parse_reservations(RESERVATION.replace(b"State=INACTIVE", b"Nodes=gpu009 State=INACTIVE"))


@pytest.mark.parametrize("release", RELEASES)
def test_settings_of_each_release(release: str) -> None:
    facts = parse_settings(recorded(release, "scontrol-show-config.txt"))
    assert facts.release.startswith(f"{release}.")
    assert (facts.cluster, facts.slurm_user, facts.slurm_uid) == ("v", "root", 0)
    assert (facts.min_job_age_s, facts.kill_wait_s) == (300, 5)
    assert (facts.job_requeue, facts.job_file_append) == (True, False)
    assert facts.accounting_type == "accounting_storage/slurmdbd"
    assert facts.accounting_store_flags == ("job_comment",)
    assert facts.private_data == ()
    assert facts.scheduler_parameters["bf_interval"] == "2"
    assert (facts.cred_expire_s, facts.requeue_exit, facts.has_federation) == (None, None, False)
    assert facts.booted_at is not None


def test_a_credentials_life_is_found_beside_other_settings() -> None:
    recording = recorded("25.11", "scontrol-show-config.txt").replace(b"munge.sock\n", b"munge.sock,cred_expire=30\n")
    assert parse_settings(recording).cred_expire_s == 30


@given(st.sampled_from(RELEASES), st.integers(min_value=2))
def test_settings_that_were_cut_off_are_unreadable(release: str, lost: int) -> None:
    whole = recorded(release, "scontrol-show-config.txt")
    end = whole.rindex(b" is UP")
    with pytest.raises(UnreadableError):
        parse_settings(whole[: end - lost % end])


@given(st.sampled_from(RELEASES), st.integers(min_value=0), st.binary(max_size=8))
def test_mangled_nodes_are_read_or_unreadable(release: str, place: int, put: bytes) -> None:
    whole = recorded(release, SCENES[1], "scontrol-show-node.txt")
    at = place % len(whole)
    try:
        parse_nodes(whole[:at] + put + whole[at + len(put) :])
    except UnreadableError:
        return
