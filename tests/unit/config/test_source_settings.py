"""How a site names the stores of its logs and metrics."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from relance.bootstrap.stores import headers_of
from relance.config import SettingError, load_settings
from relance.config.settings import ClusterSettings
from relance.config.sources import FilesSettings, LogStoreSettings, MetricStoreSettings


def _cluster(tmp_path: Path, **fields: object) -> ClusterSettings:
    file = tmp_path / "relance.yaml"
    file.write_text(yaml.safe_dump({"state_dir": str(tmp_path), "clusters": [{"name": "alpha", **fields}]}))
    return load_settings(file, environment={}).clusters[0]


def test_without_a_word_logs_are_files_and_there_are_no_metrics(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path)
    assert cluster.logs == (FilesSettings(),)
    assert cluster.metrics == ()


def test_several_stores_are_named_by_kind_or_name(tmp_path: Path) -> None:
    cluster = _cluster(
        tmp_path,
        logs=[
            {"kind": "files"},
            {"kind": "loki", "url": "http://127.0.0.1:3100", "match": {"cluster": "alpha"}},
            {
                "kind": "victorialogs",
                "url": "http://127.0.0.1:9428",
                "name": "syslog",
                "kernel_match": {"unit": "kernel"},
            },
        ],
        metrics=[{"url": "http://127.0.0.1:9090"}],
    )
    assert [source.called for source in (*cluster.logs, *cluster.metrics)] == ["files", "loki", "syslog", "prometheus"]
    assert [type(source) for source in cluster.logs] == [FilesSettings, LogStoreSettings, LogStoreSettings]


_LOKI = {"kind": "loki", "url": "http://x"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({"logs": []}, "logs", id="no source of logs"),
        pytest.param({"logs": [{"kind": "elastic", "url": "http://x"}]}, "'loki' or 'victorialogs'", id="unknown kind"),
        pytest.param({"logs": [{"kind": "loki"}]}, "url", id="no address"),
        pytest.param(
            {"logs": [{"kind": "loki", "url": "http://u:p@x"}]}, "neither user nor password", id="secret in it"
        ),
        pytest.param(
            {"metrics": [{"url": "http://x"}, {"url": "http://y"}]}, "called prometheus", id="two of one name"
        ),
        pytest.param({"metrics": [{"url": "http://x", "name": "watcher"}]}, "may not be called watcher", id="our name"),
        pytest.param({"metrics": [{"url": "http://x", "node_value": "host"}]}, "{node}", id="no node in it"),
        pytest.param({"logs": [{"kind": "loki", "url": "http://x", "job_value": "j"}]}, "{raw_id}", id="no job in it"),
        pytest.param(
            {"metrics": [{"url": "http://x", "user": "a", "token_file": "/t"}]},
            "both user and token_file",
            id="two proofs",
        ),
        pytest.param({"metrics": [{"url": "http://x", "password_file": "/p"}]}, "no user", id="password of nobody"),
        pytest.param({"metrics": [{"url": "https://x", "cert_file": "/c"}]}, "together", id="half a certificate"),
        pytest.param(
            {"metrics": [{"url": "http://x", "progress": {"job_value": "{job}"}}]}, "{raw_id}", id="no job in a series"
        ),
        pytest.param({"logs": [_LOKI | {"url": "http://x/y?token=hush"}]}, "own settings", id="a token in it"),
        pytest.param({"logs": [_LOKI | {"job_label": ""}]}, "job_label", id="lines of nobody"),
        pytest.param(
            {"logs": [_LOKI | {"kernel_match": {"unit": "kernel"}, "node_label": ""}]}, "node_label", id="no node"
        ),
        pytest.param(
            {"logs": [_LOKI | {"match": {"cluster": "alpha", "dc": "x"}, "kernel_match": {"cluster": "alpha"}}]},
            "kernel logs alone",
            id="what jobs write as what kernels say",
        ),
        pytest.param({"logs": [_LOKI | {"match": {"job_id": "7"}}]}, "leave it out", id="one job for all"),
        pytest.param({"logs": [_LOKI | {"kernel_match": {"node": "n1"}}]}, "leave it out", id="one node for all"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_mends_it(
    tmp_path: Path, fields: dict[str, object], says: str
) -> None:
    with pytest.raises(SettingError) as refused:
        _cluster(tmp_path, **fields)
    assert says in str(refused.value)
    assert not any(secret in str(refused.value) for secret in ("u:p", "hush"))


def _secret(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "secret"
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_tenants_and_proofs_become_the_headers_that_each_store_asks_for(tmp_path: Path) -> None:
    secret = _secret(tmp_path, "s3cret\n")
    loki = LogStoreSettings(kind="loki", url="http://x", tenant="ml", token_file=secret)
    assert headers_of(loki) == {"Authorization": "Bearer s3cret", "X-Scope-OrgID": "ml"}
    logs = LogStoreSettings(kind="victorialogs", url="http://x", tenant="12:3", user="ada", password_file=secret)
    assert headers_of(logs) == {"Authorization": "Basic YWRhOnMzY3JldA==", "AccountID": "12", "ProjectID": "3"}
    assert headers_of(MetricStoreSettings(url="http://x")) == {}


def test_a_secret_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    secret = _secret(tmp_path, "s3cret")
    secret.chmod(0o644)
    with pytest.raises(SettingError, match="chmod 600"):
        headers_of(MetricStoreSettings(url="http://x", token_file=secret))
