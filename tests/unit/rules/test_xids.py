from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.attribution.placing import clues_of
from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import RuleHit
from relance.rules.formats import PackError
from relance.rules.loading import load_pack
from tests.unit.attribution.cases import at, case
from tests.unit.rules.packs import packaged, scan

CODES = range(1, 177)
LINK_DOWN = {
    "xid-149-peer": (0b010101, 0b100000, 0b100001, 0b100010, 0b100011, 0b100100, 0b100101),
    "xid-149-signal": (0b000010, 0b000100, 0b001010, 0b101010, 0b101011),
    "xid-149-software": (0b001111, 0b010000, 0b010001, 0b010010, 0b010110, 0b100110),
    "xid-149-host": (0b101000,),
}


def hits(*lines: str, node: str = "n2", scope: Scope = Scope.KERNEL) -> tuple[RuleHit, ...]:
    text = "".join(f"{line}\n" for line in lines).encode()
    return scan(text, scope=scope, node=node, file=f"{node}/kern.log").hits


def rules_of(*lines: str) -> list[str]:
    return [hit.rule for hit in hits(*lines)]


def xid(code: int, text: str = "Ch 0000000c", when: str = "11:02:00", pci: str = "0000:5e:00") -> str:
    return f"2026-05-02T{when}Z n2 kernel: NVRM: Xid (PCI:{pci}): {code}, pid=4411, name=python, {text}"


def roles(*found: RuleHit) -> dict[str, Role]:
    """What each rule's first hit comes to mean beside the others."""
    seen = [replace(hit, seen_at=at(200)) for hit in found]
    meant: dict[str, Role] = {}
    for clue in clues_of(case(*seen)):
        meant.setdefault(clue.hit.rule, clue.role)
    return meant


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_rule_of_its_own(code: int) -> None:
    (found, *others) = [hit.rule for hit in hits(xid(code, "nothing more"))] or [""]
    assert (found, others) == ("xid-unknown" if code == 154 else f"xid-{code}", [])


@pytest.mark.parametrize(
    ("line", "pid", "process"),
    [
        ("[ 12.7] NVRM: Xid (PCI:0000:5e:00): 62, pid=4411, name=pt_main_thread, PMU Halt", "4411", "pt_main_thread"),
        ("[ 12.7] NVRM: Xid (PCI:0000:5e:00): 62, pid='<unknown>', name=<unknown>, PMU Halt", None, None),
        ("[ 12.7] NVRM: Xid (PCI:0000:5e:00): 62, pid=<unknown>, PMU Halt", None, None),
        ("[ 12.7] NVRM: Xid (PCI:0000:5e:00): 62, PMU Halt", None, None),
        ("[ 12.7] NVRM: Xid (0000:5e:00): 62, pid=4411, Ch 0000000c", "4411", None),
        ("[ 12.7] NVRM: Xid (PCI:0000:5e:00 GPU-I:05): 62, pid=4411, PMU Halt", "4411", None),
        ("[ 12.7] NVRM: Xid (PCI:0000:5e:00 GPU-I:05 GPU-CI:00): 62, PMU Halt", None, None),
        ("May  2 11:12:00 n2 kernel: [  12.7] NVRM: Xid (PCI:0000:5e:00): 62, PMU Halt", None, None),
    ],
)
def test_the_line_is_known_in_every_shape_it_has_had(line: str, pid: str | None, process: str | None) -> None:
    (hit,) = hits(line)
    assert (hit.rule, hit.symptom, hit.device) == ("xid-62", "pmu_halt", "0000:5e:00")
    assert (hit.captures["xid"], hit.captures.get("pid"), hit.captures.get("process")) == ("62", pid, process)


def test_the_number_elsewhere_in_a_line_is_no_xid() -> None:
    assert rules_of("[ 12.7] NVRM: Xid (PCI:0000:79:00): 43, pid=79, name=79, Ch 00000079") == ["xid-43"]
    assert rules_of("[ 12.7] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.79.06") == ["nvidia-driver-loaded"]
    assert hits(xid(79), scope=Scope.APPLICATION) == ()


def test_the_vendors_buckets_stand_in_the_details() -> None:
    rules = packaged().by_id
    details = rules["xid-79"].details
    assert (details["immediate"], details["investigate"]) == ("RESTART_BM", "CONTACT_SUPPORT")
    assert details["name"] == "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"
    assert "RESTART_BM" in rules["xid-79"].source
    named = [rule for code in range(1, 162) if (rule := rules[f"xid-{code}"]).details.get("immediate")]
    assert len(named) == 161
    assert "of the same GPU" in rules["xid-31"].details["on-repeat"]


def test_the_gpu_is_told_where_the_driver_tells_it() -> None:
    (hit,) = hits(xid(119, "Timeout after 45s of waiting for RPC response from GPU2 GSP! Expected function 76"))
    assert (hit.captures["gpu"], hit.captures["pci"]) == ("2", "0000:5e:00")


@pytest.mark.parametrize("others", [0x000005C6, 0xFC000011, 0x080FFFFF, 0xF0000000])
@pytest.mark.parametrize("value", range(64))
def test_the_bits_of_an_nvlink_that_went_down_tell_whose_fault_it_is(value: int, others: int) -> None:
    intr_info = value << 20 | others & ~(0x3F << 20)
    line = xid(149, f"NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x{intr_info:08x} 0x00000000 0x0 0x0 0x0 0x0)")
    expected = next((rule for rule, values in LINK_DOWN.items() if value in values), "xid-149-link-down")
    assert rules_of(line) == [expected]
    assert rules_of(line.replace(f"{intr_info:08x}", f"{intr_info:08X}")) == [expected]


def test_an_nvlink_that_the_peer_took_down_is_a_consequence_and_one_of_bad_signal_a_cause() -> None:
    rules = packaged().by_id
    peer, signal, software = rules["xid-149-peer"], rules["xid-149-signal"], rules["xid-149-software"]
    assert (peer.role, peer.suspect, peer.restart) == (Role.CASCADE, SuspectKind.PEER, RestartHint.EXCLUDE)
    assert (signal.role, signal.suspect, signal.domain) == (Role.ROOT, SuspectKind.BOTH, FaultDomain.INTERCONNECT)
    assert (software.role, software.suspect, software.restart) == (Role.MAYBE, SuspectKind.NONE, RestartHint.OK)


@pytest.mark.parametrize(
    ("code", "text", "rule"),
    [
        (144, "SAW_MVB Fatal XC0 i0 Link 00 (0x00000001 0x00000002 0x0 0x0)", "xid-nvlink5-fatal"),
        (144, "SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000001 0x00000001 0x0 0x0)", "xid-144"),
        (145, "RLW_TAGSTATE Fatal XC0 i0 Link 08 (0x00000008 0x00000002 0x0 0x0)", "xid-nvlink5-fatal"),
        (145, "RLW_REMAP Nonfatal XC1 i0 Link 08 (0x00000004 0x00000004 0x0 0x0)", "xid-145-remap"),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 08 (0x00000006 0x00000001 0x0 0x0)", "xid-145"),
        (146, "TLW_RX/TLW_RX_PIPE1 Fatal XC0 i0 Link 08 (0x0000000b 0x00000004 0x0 0x0)", "xid-nvlink5-fatal"),
        (147, "TREX Nonfatal XC0 i0 Link 02 (0x0000000e 0x00000001 0x0 0x0)", "xid-147"),
        (148, "NVLPW_CTRL/NVLPW Nonfatal XC0 i0 Link -1 (0x0000000f 0x80000000 0x0 0x0)", "xid-148"),
        (149, "NETIR/NETIR_INT Fatal XC0 i0 Link 00 (0x00000018 0x00000000 0x0 0x0)", "xid-nvlink5-fatal"),
        (149, "NETIR_MFDE_EVENT Nonfatal XC0 i0 Link 00 (0x00000014 0x00000003 0x0 0x0)", "xid-149"),
        (149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 00 (0x00000013 0x00000001 0x0 0x0)", "xid-149-ber"),
        (150, "MSE_WATCHDOG Fatal XC0 i0 Link -1 (0x00000000 0x00000000 0x0 0x0)", "xid-nvlink5-fatal"),
        (150, "MSE Degraded", "xid-150-degraded"),
    ],
)
def test_nvlink_5_is_judged_by_unit_and_severity(code: int, text: str, rule: str) -> None:
    assert rules_of(xid(code, text)) == [rule]


@pytest.mark.parametrize(
    ("action", "rule", "symptom"),
    [
        ("0x0 (None)", "xid-154-recovered", "gpu_recovery_none"),
        ("0x1 (GPU Reset Required)", "xid-154", "gpu_needs_reset"),
        ("0x2 (Node Reboot Required)", "xid-154-reboot", "gpu_needs_reboot"),
        ("0x3 (Drain P2P)", "xid-154-drain-p2p", "gpu_drain_p2p"),
        ("0x4 (Drain and Reset)", "xid-154-degraded", "gpu_degraded_drain"),
        ("0x5 (Recover IMEX Domain)", "xid-154-imex", "imex_unhealthy"),
        ("0x2", "xid-154-reboot", "gpu_needs_reboot"),
    ],
)
def test_the_drivers_order_is_read_by_its_number(action: str, rule: str, symptom: str) -> None:
    (hit,) = hits(xid(154, f"GPU recovery action changed from 0x7 (Other) to {action}"))
    assert (hit.rule, hit.symptom) == (rule, symptom)


def test_numbers_of_a_newer_driver_are_judged_by_their_words() -> None:
    assert rules_of(xid(199, "a new unit. RST: Yes, D-RST: No")) == ["xid-reset-required"]
    assert rules_of(xid(199, "NEWUNIT Nonfatal XC0 i0 Link 04")) == ["xid-informational"]
    assert rules_of(xid(199, "something new")) == ["xid-unknown"]


def test_a_clean_up_is_noise_beside_anything_else_and_doubtful_alone() -> None:
    cleanups = hits(xid(45), xid(45, pci="0000:9b:00"))
    assert roles(*cleanups) == {"xid-45": Role.MAYBE}
    assert roles(*cleanups, *hits(xid(79, "GPU has fallen off the bus."))) == {
        "xid-45": Role.TEARDOWN,
        "xid-79": Role.ROOT,
    }


@pytest.mark.parametrize("hard", [48, 74, 79, 95, 119])
def test_a_page_fault_beside_broken_hardware_follows_from_it(hard: int) -> None:
    assert roles(*hits(xid(hard), xid(31), xid(13), xid(39), xid(43))) == {
        f"xid-{hard}": Role.ROOT,
        "xid-31": Role.CASCADE,
        "xid-13": Role.CASCADE,
        "xid-39": Role.CASCADE,
        "xid-43": Role.CASCADE,
    }


def test_a_page_fault_long_after_broken_hardware_or_on_another_node_stands_for_itself() -> None:
    assert roles(*hits(xid(48, when="10:55:00"), xid(31)))["xid-31"] is Role.ROOT
    elsewhere = [replace(hit, node="n3") for hit in hits(xid(48))]
    assert roles(*hits(xid(31)), *elsewhere)["xid-31"] is Role.ROOT
    near = [replace(hit, at=hit.at and hit.at + timedelta(seconds=50)) for hit in hits(xid(48))]
    assert roles(*hits(xid(31)), *near)["xid-31"] is Role.CASCADE


def test_page_faults_and_exceptions_are_the_applications_without_a_suspect() -> None:
    for code, symptom in ((13, "gpu_sm_exception"), (31, "gpu_page_fault")):
        rule = packaged().by_id[f"xid-{code}"]
        assert (rule.symptom, rule.domain, rule.suspect) == (symptom, FaultDomain.APPLICATION, SuspectKind.NONE)


def test_a_code_without_a_known_kind_is_refused_with_what_is_missing() -> None:
    file = "group: mine\ncodes:\n  - {code: 301, name: NEW, says: Something new, kind: nowhere}\n"
    with pytest.raises(PackError) as caught:
        load_pack({"mine.yaml": file})
    assert {(problem.rule, problem.field) for problem in caught.value.problems} >= {
        ("xid-301", "symptom"),
        ("xid-301", "role"),
    }
    assert len(load_pack({"mine.yaml": file.replace("nowhere", "new") + _KINDS}).rules) == 1


_KINDS = """kinds:
  new: {symptom: new_fault, domain: hardware, role: maybe, suspect: self, restart: ok, weight: 0.5}
"""
