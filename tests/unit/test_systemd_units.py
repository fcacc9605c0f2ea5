"""The units that are shipped: each starts a command that exists, comes back by itself, and may do little else."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from relance.cli.main import VERBS

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
HARDENING = {
    "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "read-only", "PrivateTmp": "yes",
    "PrivateDevices": "yes", "RestrictNamespaces": "yes", "SystemCallFilter": "@system-service", "UMask": "0077",
    "CapabilityBoundingSet": "",
}  # fmt: skip


def service(unit: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # systemd's names have capitals
    parser.read_string(unit.read_text())
    return parser["Service"]


def test_there_is_one_for_each_role_and_one_for_all() -> None:
    roles = {"relance", *(f"relance-{role}" for role in ("server", "watcher", "controller", "watchdog"))}
    assert {unit.stem for unit in UNITS} == roles


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_it_starts_a_command_that_exists(unit: Path) -> None:
    program, *words = service(unit)["ExecStart"].split()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    name = Path(program).name
    assert name in scripts
    assert name != "relance" or words[0] in VERBS


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_it_comes_back_and_may_do_little_else(unit: Path) -> None:
    found = service(unit)
    assert (found["User"], found["Restart"]) == ("relance", "always")
    assert {name: found[name] for name in HARDENING} == HARDENING


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine")
def test_systemd_understands_them_and_calls_their_exposure_ok(tmp_path: Path) -> None:
    copies = [tmp_path / unit.name for unit in UNITS]
    for unit, copy in zip(UNITS, copies, strict=True):
        copy.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text()))
    files = [str(copy) for copy in copies]
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert not [line for line in done.stderr.splitlines() if "relance" in line], done.stderr
    words = ["systemd-analyze", "security", "--offline=yes", "--threshold=30", *files]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:]
