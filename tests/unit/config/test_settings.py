"""Settings: defaults that work, and one clear sentence for whatever is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from relance.config import SettingError, Settings, load_settings, read_secret


def _load(tmp_path: Path, text: str) -> object:
    file = tmp_path / "relance.yaml"
    file.write_text(text)
    return load_settings(file, environment={"HOME": str(tmp_path)})


def test_without_a_file_everything_has_a_default(tmp_path: Path) -> None:
    settings = load_settings(environment={"HOME": str(tmp_path)})
    assert settings.state_dir == tmp_path / ".local/state/relance"
    assert settings.server.host == "127.0.0.1"
    assert settings.clusters == ()


def test_the_environment_names_file_and_state_folder(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("clusters: [{name: alpha}]")
    environment = {"HOME": "/nowhere", "RELANCE_CONFIG": str(file), "RELANCE_STATE_DIR": str(tmp_path / "state")}
    settings = load_settings(environment=environment)
    assert settings.state_dir == tmp_path / "state"
    assert settings.cluster("alpha") is not None
    assert settings.cluster("beta") is None


def test_limits_are_put_over_the_shipped_ones(tmp_path: Path) -> None:
    settings = _load(tmp_path, "clusters: [{name: a, limits: {settle_s: 0, hang: {suspected_min_s: 3}}}]")
    limits = settings.clusters[0].limits  # type: ignore[attr-defined]
    assert limits.settle_s == 0.0
    assert limits.hang.suspected_min_s == 3.0
    assert limits.hang.signed_min_s == 180.0


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "relance.yaml"
    file.write_text("server: {port: 1}")
    assert load_settings(file, {"server.port": 2}, {"HOME": "/"}).server.port == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("clusters: [{name: a, limits: {setle_s: 1}}]", "did you mean settle_s", id="misspelt limit"),
        pytest.param("clusters: [{name: a, limits: {settle_s: -1}}]", "may not be below 0", id="negative limit"),
        pytest.param("clusters: [{name: a, limits: {settle_s: soon}}]", "expected a number", id="limit in words"),
        pytest.param("clusters: [{name: a, limits: {hang: 3}}]", "expected settings by name", id="flat group"),
        pytest.param("clusters: [{name: a/b}]", "clusters.0.name", id="slash in a cluster's name"),
        pytest.param("clusters: [{name: ..}]", "clusters.0.name", id="a cluster's name that is a path"),
        pytest.param("clusters: [{name: a}, {name: a}]", "two clusters have the name a", id="two of one name"),
        pytest.param(
            "clusters: [{name: a, scheduler: {state_dir: /s}}, {name: b, scheduler: {state_dir: /s}}]",
            "two clusters have the scheduler /s",
            id="two of one scheduler",
        ),
        pytest.param("clusters: [{name: a, kernel_log: 'k/{node}'}]", "not an absolute path", id="relative kernel log"),
        pytest.param("clusters: [{name: a, log_roots: [logs]}]", "logs is not an absolute path", id="relative root"),
        pytest.param("notify: {webhook: 'file:///etc/passwd'}", "begins with http", id="a web hook elsewhere"),
        pytest.param("[" * 10_000, "nested too deeply", id="nested without end"),
        pytest.param("clusters: [{name: a, kernel_log: /var/log/kern.log}]", "needs {node}", id="one kernel log"),
        pytest.param("sever: {}", "sever: no such setting", id="unknown group"),
        pytest.param("clusters: [{name: a, opt_in: gpu}]", "list of partitions such as [gpu]", id="a bare partition"),
        pytest.param("- 1", "settings by name", id="a list"),
        pytest.param("x: [", "is not YAML", id="broken YAML"),
    ],
)
def test_a_bad_setting_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingError, match=r"relance\.yaml") as caught:
        _load(tmp_path, text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ("logs: [{kind: loki, url: 'http://l', delay: 3}]", "clusters.0.logs.0.delay: no such setting"),
        ("logs: [{kind: loki}]", "clusters.0.logs.0.url: Field required"),
        ("logs: []", "clusters.0.logs: Tuple should have at least 1 item after validation, not 0"),
        ("scheduler: {kind: slurm, bin: /x}", "clusters.0.scheduler.bin: no such setting"),
        ("metrics: [{url: 'http://p'}, {url: 'http://q', node: n}]", "clusters.0.metrics.1.node: no such setting"),
    ],
)  # fmt: skip
def test_a_bad_setting_is_named_by_its_place_in_the_file(tmp_path: Path, cluster: str, says: str) -> None:
    with pytest.raises(SettingError) as caught:
        _load(tmp_path, f"clusters: [{{name: a, {cluster}}}]")
    assert str(caught.value).endswith(f"relance.yaml: {says}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot read the settings"):
        load_settings(tmp_path / "none.yaml", environment={"HOME": "/"})


def test_a_file_without_end_is_no_settings_file() -> None:
    with pytest.raises(SettingError, match="larger than"):
        load_settings(Path("/dev/zero"), environment={"HOME": "/"})


def test_a_secret_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_bytes(b"\xff\xfe\n")
    with pytest.raises(SettingError, match="one line of text"):
        read_secret(file)


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("abc\n")
    file.chmod(0o644)
    with pytest.raises(SettingError, match="chmod 600"):
        read_secret(file)
    file.chmod(0o600)
    assert read_secret(file) == "abc"


def test_with_several_clusters_it_has_to_be_said_whose_uids_munge_proves(tmp_path: Path) -> None:
    both = {"clusters": [{"name": "alpha"}, {"name": "beta"}], "state_dir": str(tmp_path)}
    with pytest.raises(ValidationError, match=r"server\.munge\.clusters has to say on which of alpha, beta"):
        Settings.model_validate({**both, "server": {"munge": {"enabled": True}}})
    with pytest.raises(ValidationError, match="names gamma"):
        Settings.model_validate({**both, "server": {"munge": {"enabled": True, "clusters": ["gamma"]}}})
    said = Settings.model_validate({**both, "server": {"munge": {"enabled": True, "clusters": ["beta"]}}})
    assert said.server.munge.clusters == ("beta",)


def test_a_command_for_evidence_is_shown_and_not_run_until_it_is_switched_on(tmp_path: Path) -> None:
    settings = _load(tmp_path, "clusters: [{name: a, evidence: {command: [srun, '--jobid={job_id}', 'echo ${HOME}']}}]")
    evidence = settings.clusters[0].evidence  # type: ignore[attr-defined]
    assert (evidence.collect, evidence.limit_s) == (False, 20.0)
    assert evidence.command == ("srun", "--jobid={job_id}", "echo ${HOME}")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ("{command: [look, '{job}']}", "{job} is not known; there are {job_id}"),
        ("{command: [look, all]}", "should have {job_id} or {nodes} in it"),
        ("{command: ['', '{job_id}']}", "its first word should be a program"),
        ("{collect: true}", "collect needs a command"),
        ("{command: [look, '{job_id}'], limit_s: 60}", "less than or equal to 20"),
        ("{command: 'look {job_id}'}", "command"),
    ],
)
def test_a_command_for_evidence_that_cannot_be_used_is_refused(tmp_path: Path, evidence: str, words: str) -> None:
    with pytest.raises(SettingError) as raised:
        _load(tmp_path, f"clusters: [{{name: a, evidence: {evidence}}}]")
    assert words in str(raised.value)
