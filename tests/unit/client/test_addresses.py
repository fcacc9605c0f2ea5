from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from relance.client.addresses import SITE_FILE, find_server
from relance.client.errors import ClientError

URL = "http://relance.example:8642"


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment on a machine that has munge, and a state folder for whoever runs a server there."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "munge").write_text("#!/bin/sh\n")
    (programs / "munge").chmod(0o755)
    return {"PATH": str(programs), "RELANCE_STATE_DIR": str(tmp_path / "state")}


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    """The site's file with the address."""
    path = tmp_path / "server"
    path.write_text(f"{URL}\n")
    return path


def own_server(environ: dict[str, str], url: str) -> None:
    """A server runs on this machine, and this is its state folder."""
    folder = Path(environ["RELANCE_STATE_DIR"])
    folder.mkdir()
    (folder / "server.json").write_text(json.dumps({"url": url}))
    descriptor = os.open(folder / "admin-token", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, b"relance_admin\n")
    os.close(descriptor)


def test_the_sites_file_is_where_the_page_says() -> None:
    assert Path("/etc/relance/server") == SITE_FILE


def test_on_a_login_node_the_site_says_where_and_munge_says_who(machine: dict[str, str], site_file: Path) -> None:
    found = find_server(None, None, machine, site_file)
    assert (found.url, found.token) == (URL, "")
    assert found.munge is not None
    assert found.munge.socket == ""


def test_munges_socket_can_be_named(machine: dict[str, str], site_file: Path) -> None:
    found = find_server(None, None, {**machine, "RELANCE_MUNGE_SOCKET": "/run/m/s"}, site_file)
    assert found.munge is not None
    assert found.munge.socket == "/run/m/s"


def test_option_and_environment_go_before_the_site(machine: dict[str, str], site_file: Path) -> None:
    environ = {**machine, "RELANCE_SERVER": "http://b:2"}
    assert find_server(None, None, environ, site_file).url == "http://b:2"
    assert find_server("a:1", None, environ, site_file).url == "http://a:1"


def test_a_token_that_is_named_is_shown_in_place_of_munge(
    machine: dict[str, str], tmp_path: Path, site_file: Path
) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("relance_grace\n")
    found = find_server(None, token, machine, site_file)
    assert (found.token, found.munge) == ("relance_grace", None)


def test_the_own_servers_admin_token_goes_to_that_server_alone(machine: dict[str, str], site_file: Path) -> None:
    own_server(machine, "http://127.0.0.1:8642")
    own = find_server(None, None, machine, site_file)
    assert (own.url, own.token, own.munge) == ("http://127.0.0.1:8642", "relance_admin", None)
    other = find_server(URL, None, machine, site_file)
    assert other.token == ""
    assert other.munge is not None


@pytest.mark.parametrize("held", [b"", b"\xff\xfe"], ids=["empty", "not text"])
def test_a_sites_file_that_says_nothing_is_as_none(machine: dict[str, str], site_file: Path, held: bytes) -> None:
    site_file.write_bytes(held)
    with pytest.raises(ClientError, match="no server is known") as caught:
        find_server(None, None, machine, site_file)
    assert str(site_file) in caught.value.remedy


def test_without_token_and_munge_both_are_named(machine: dict[str, str], site_file: Path) -> None:
    with pytest.raises(ClientError, match=r"no token for http://relance\.example:8642, and no munge here") as caught:
        find_server(None, None, {**machine, "PATH": "/nonexistent"}, site_file)
    assert "on a login node" in caught.value.remedy
