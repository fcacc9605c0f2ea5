from __future__ import annotations

from dataclasses import replace

import pytest

from relance.attribution.placing import clues_of
from relance.domain.faults import Role, Scope
from relance.domain.findings import RuleHit
from tests.unit.attribution.cases import at, case
from tests.unit.rules.packs import packaged, scan

FILES = ("gpu.yaml", "nic.yaml", "nvswitch.yaml", "xids.yaml")
HEALTHY_KERNEL = """\
[    0.000000] Linux version 6.8.0-60-generic (builder@host) (gcc 13.3.0) #63 SMP
[    1.912345] pcieport 0000:5d:01.0: PME: Signaling with IRQ 121
[    1.912399] pcieport 0000:5d:01.0: AER: enabled with IRQ 121
[    1.912411] pcieport 0000:5d:01.0: pciehp: Slot #5 AttnBtn- PwrCtrl- MRL- HotPlug+ Surprise- LLActRep+
[    2.101010] DMAR: Intel(R) Virtualization Technology for Directed I/O
[    4.220001] mlx5_core 0000:5e:00.0: firmware version: 28.39.1002
[    4.220100] mlx5_core 0000:5e:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)
[    4.733333] mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged
[    4.740000] mlx5_core 0000:5e:00.0: mlx5_pcie_event:304:(pid 0): PCIe slot advertised sufficient power (75W).
[    5.001000] mlx5_core 0000:5e:00.0 ib0: renamed from eth1
[    5.444444] mlx5_core 0000:5e:00.0 mlx5_4: Port: 1 Link ACTIVE
[    5.500000] bond0: (slave ens9f1np1): link status definitely up, 200000 Mbps full duplex
[    7.300112] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06
[    7.512000] nvidia-nvlink: Nvlink Core is being initialized, major device number 510
[    7.600000] nvidia-nvswitch0: open (major=239)
[    8.000000] nvidia-uvm: Loaded the UVM driver, major device number 509.
[    8.100000] NVRM: GPU at PCI:0000:5e:00: GPU-11112222-3333-4444-5555-666677778888
[  611.000000] mlx5_core 0000:5e:00.0: mlx5_cmd_out_err:815:(pid 9): ACCESS_REG(0x805) op_mod(0x1) failed
[  700.000000] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20009, Non-fatal, Link 30 RX Short Error Rate
[  700.000001] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20009, Severity 0 Engine instance 30 Sub-engine instance 00
[  800.000000] amdgpu 0000:c1:00.0: amdgpu: SMU is initialized successfully!
[  801.000000] amdgpu 0000:c1:00.0: amdgpu: no uncorrectable hardware errors detected
"""
HEALTHY_NOTES = """\
| N/A   48C    P0            320W / 700W |    4410MiB / 81559MiB |    100%      Default |
        Remapping Failure Occurred        : No
            SRAM Threshold Exceeded       : No
        HW Slowdown                       : Not Active
        State                             : Completed
    GPU Recovery Action                   : None
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11112222-3333-4444-5555-666677778888)
5e:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
\t\tState: Active
\t\tPhysical state: LinkUp
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\tLink detected: yes
Domain State: UP
Node #3   - 192.0.2.13      - READY          - Version: 570.124.06
| Memory                    | Pass - All                                     |
"""


def hits(text: str, scope: Scope = Scope.KERNEL, node: str = "n2") -> tuple[RuleHit, ...]:
    return scan(f"{text}\n".encode(), scope=scope, node=node, file=f"{node}/kern.log").hits


def rules_of(text: str, scope: Scope = Scope.KERNEL) -> list[str]:
    return [hit.rule for hit in hits(text, scope)]


def roles(text: str) -> dict[str, Role]:
    return {clue.hit.rule: clue.role for clue in clues_of(case(*(replace(hit, seen_at=at(9)) for hit in hits(text))))}


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        (HEALTHY_KERNEL, Scope.KERNEL),
        (HEALTHY_NOTES, Scope.NOTES),
        (HEALTHY_NOTES, Scope.APPLICATION),
        (HEALTHY_KERNEL, Scope.DEVICE),
    ],
)
def test_a_healthy_node_gives_nothing_that_may_be_a_cause(text: str, scope: Scope) -> None:
    assert [hit.rule for hit in hits(text, scope) if hit.role in (Role.ROOT, Role.MAYBE)] == []


def test_no_rule_of_the_kernel_alone_counts_in_what_a_job_prints() -> None:
    kernel_only = [rule for rule in packaged().rules if rule.file in FILES and rule.scopes == {Scope.KERNEL}]
    assert len(kernel_only) > 200
    text = "\n".join(line for rule in kernel_only for line in rule.hit)
    assert not {rule.id for rule in kernel_only} & set(scan(text.encode()).counts)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("NVRM: The NVIDIA GPU 0000:5e:00.0 has fallen off the bus and is not responding.", "nvrm-fell-off-bus"),
        ("NVRM: GPU 0000:5e:00.0: rm_init_adapter failed, device minor number 5", "nvrm-init-failed"),
        ("NVRM: GPU2 _kgspRpcRecvPoll: Timeout waiting for RPC from GSP1! Expected function 76.", "nvrm-gsp-timeout"),
        ("NVRM: nvCheckOkFailedNoLog: Check failed: Call timed out [NV_ERR_TIMEOUT] (0x00000065)", "nvrm-assert"),
        ("nvidia 0000:5e:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer", "pcie-fatal"),
        ("nvidia 0000:5e:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Data", "pcie-nonfatal"),
        ("nvidia 0000:5e:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", "pcie-corrected"),
        ("pcieport 0000:5d:01.0: DPC: containment event, status:0x1f01 source:0x0000", "pcie-slot-lost"),
        ("amdgpu 0000:c1:00.0: amdgpu: ring gfx_0.0.0 timeout, but soft recovered", "amdgpu-soft-recovered"),
        ("amdgpu 0000:c1:00.0: [drm] *ERROR* ring sdma0 timeout, signaled seq=7, emitted seq=9", "amdgpu-ring-timeout"),
        ("amdgpu 0000:c1:00.0: amdgpu: socket: 0, die: 1, 3 new uncorrectable hardware errors detected", "amdgpu-ecc"),
        ("habanalabs hl3: Device heartbeat failed! PCI link is broken", "gaudi-heartbeat"),
        ("mlx5_core 0000:5e:00.0: poll_health:801:(pid 0): device's health compromised", "nic-health-compromised"),
        ("mlx5_core 0000:5e:00.0: wait_func:1195: CREATE_CQ(0x400) timeout. Will cause a leak of a command resource",
         "nic-command-timeout"),
        ("mlx5_core 0000:5e:00.0: mlx5_cmd_check:7:(pid 4): 2ERR_QP(0x7) op_mod(0x0) failed, status bad resource",
         "nic-command-error"),
        ("mlx5_core 0000:5e:00.0: Port module event[error]: module 1, Cable error, Bus stuck", "nic-module"),
        ("NETDEV WATCHDOG: CPU: 4: ens9f1np1 (mlx5_core): transmit queue 3 timed out 5112 ms", "nic-transmit-timeout"),
    ],
)  # fmt: skip
def test_a_line_of_the_kernel_is_known(line: str, rule: str) -> None:
    assert rules_of(f"[ 8812.118402] {line}") == [rule]
    assert rules_of(f"May  2 11:12:00 n2 kernel: {line}") == [rule]


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ("20034, Fatal, Link 30 LTSSM Fault Up", "nvswitch-link-fault"),
        ("12002, Fatal, Link 30 egress packet route (First)", "nvswitch-fatal"),
        ("12028, Non-fatal, Link 34 egress non-posted PRIV error (First)", "nvswitch-traffic-blocked"),
        ("12028, Severity 0 Engine instance 34 Sub-engine instance 00", "nvswitch-detail"),
        ("12028, Data {0x00000008, 0x00000008}", "nvswitch-detail"),
        ("20009, Non-fatal, Link 30 RX Short Error Rate", "nvswitch-link-replay"),
        ("20009, Fatal, Link 30 RX Short Error Rate", "nvswitch-fatal"),
        ("23017, Fatal, Tile 4 egress credit parity error", "nvswitch-always-fatal"),
        ("23018, Non-fatal, Tile 4 something else", "nvswitch-nonfatal"),
        ("24007, Fatal, Link 30 sourcetrack timeout", "nvswitch-timeout"),
        ("26006, SOE HALTED", "nvswitch-soe"),
        ("10005, Thermal slowdown Disengaged", "nvswitch-other"),
        ("10004, Thermal Slowdown Engaged | Temp higher than WARN Threshold", "nvswitch-hot"),
    ],
)
def test_an_nvswitch_is_judged_by_code_and_severity(said: str, rule: str) -> None:
    assert rules_of(f"[ 44.0] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): {said}") == [rule]


def test_refused_nvlink_traffic_beside_a_broken_link_follows_from_it() -> None:
    blocked = (
        "[ 44.0] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 34 egress non-posted PRIV error"
    )
    link = "[ 52.0] NVRM: Xid (PCI:0000:c9:00): 74, NVLink: fatal error detected on link 11(0x20000, 0x0)"
    assert roles(blocked) == {"nvswitch-traffic-blocked": Role.ROOT}
    assert roles(f"{blocked}\n{link}") == {"nvswitch-traffic-blocked": Role.CASCADE, "xid-74": Role.ROOT}


def test_the_driver_says_more_of_a_lost_slot_than_the_slot_itself() -> None:
    slot = "[ 8811.9] pcieport 0000:5d:01.0: pciehp: Slot(5): Link Down"
    assert roles(slot) == {"pcie-slot-lost": Role.ROOT}
    assert roles(f"{slot}\n[ 8812.0] NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.") == {
        "pcie-slot-lost": Role.CONTEXT,
        "xid-79": Role.ROOT,
    }


def test_a_port_that_comes_back_is_no_cause_and_one_of_a_broken_nic_a_consequence() -> None:
    down = "2026-05-02T11:01:00Z n2 kernel: mlx5_core 0000:5e:00.0 ib0: Link down"
    up = "2026-05-02T11:01:20Z n2 kernel: mlx5_core 0000:5e:00.0 ib0: Link up"
    broken = "2026-05-02T11:00:58Z n2 kernel: mlx5_core 0000:5e:00.0: synd 0x8: unrecoverable hardware error"
    assert roles(down)["nic-link-down"] is Role.ROOT
    assert roles(f"{down}\n{up}")["nic-link-down"] is Role.CONTEXT
    assert roles(f"{broken}\n{down}") == {"nic-broken": Role.ROOT, "nic-link-down": Role.CASCADE}


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("\t\tState: Down", "ibstat-port-down"),
        ("        phys state:      3: Disabled", "ibstat-port-down"),
        ("mlx5_4 port 1 ==> ib4 (Down)", "ibstat-port-down"),
        ("5e:00.0 3D controller: NVIDIA Corporation GH100 (rev ff)", "nvidia-smi-gpu-lost"),
        ("    GPU Recovery Action                   : Node Reboot", "nvidia-smi-needs-reset"),
        ("| PCIe                      | Fail                                           |", "dcgm-diag-fail"),
        ("Node #3   - 192.0.2.13      - UNAVAILABLE    - Version: N/A", "imex-peer-unavailable"),
    ],
)
def test_outputs_of_commands_are_notes(line: str, rule: str) -> None:
    assert rules_of(line, Scope.NOTES) == [rule]
    assert rules_of(f"cn07: {line.strip()}", Scope.NOTES) == [rule]


def test_the_networks_manager_names_the_node_that_is_down() -> None:
    (hit,) = hits(
        "2026-05-02 11:12:00.442 [471] [331] WARNING [Hardware] Computer [default(1) / Computer: cn07]: Node is down",
        Scope.DEVICE,
    )
    assert (hit.rule, hit.captures["node"], hit.role) == ("ufm-node-down", "cn07", Role.CASCADE)


def test_a_port_that_is_down_as_the_node_starts_is_no_cause() -> None:
    line = "mlx5_core 0000:5e:00.0 ib0: Link down"
    assert rules_of(f"[   12.733333] {line}") == ["nic-link-at-boot"]
    assert rules_of(f"[  412.733333] {line}") == ["nic-link-down"]
    assert rules_of(f"2026-05-02T11:01:00Z n2 kernel: {line}") == ["nic-link-down"]


def test_the_rules_of_devices_are_many_and_each_has_examples_of_both_kinds() -> None:
    own = [rule for rule in packaged().rules if rule.file in FILES]
    further = [rule for rule in own if rule.file != "xids.yaml"]
    assert len(further) >= 140
    assert [rule.id for rule in own if len(rule.hit) < 2 or len(rule.miss) < 2] == []
