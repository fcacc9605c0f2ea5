"""What a check of signals makes of answers that are none, over real sockets, and of samples that cannot be right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from relance.bootstrap.proofs.opening import with_opened
from relance.bootstrap.proofs.rows import Level, Row, SignalCheck
from relance.bootstrap.proofs.signals import Question, check_signals
from relance.config.settings import ClusterSettings
from relance.config.sources import LogStoreSettings, MetricStoreSettings
from relance.ports.clocks import SystemClock
from relance.rules import Pack, load_pack
from relance.rules.pack import read_texts
from tests.components.metric_stores import KINDS, MetricStore, Written, metric_store
from tests.contract.loopback_services import (
    Manner,
    Service,
    answers,
    breaks_off,
    drips,
    floods,
    hangs,
    says,
    talks_nonsense,
)

NO_RULES = Pack(rules=())
UTIL, POWER = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"


async def checked(cluster: ClusterSettings, pack: Pack = NO_RULES) -> SignalCheck:
    clock, question = SystemClock(), Question(watch_s=0.1)
    return await with_opened(
        cluster, clock, lambda opened: check_signals(cluster, pack, question, opened, clock)
    )  # fmt: skip


def reds(found: SignalCheck) -> dict[str, Row]:
    return {row.source: row for row in found.rows if row.level is Level.BAD}


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        pytest.param(answers("200 OK", b"<html><body>please log in</body></html>"), "HTML", id="a login page"),
        pytest.param(answers("302 Found", b"", "Location: http://127.0.0.1:9/\r\n"), "HTTP 302", id="sent elsewhere"),
        pytest.param(answers("401 Unauthorized", b"no org id"), "HTTP 401", id="no right"),
        pytest.param(answers("429 Too Many Requests", b"slow down"), "HTTP 429", id="busy"),
        pytest.param(answers("500 Internal Server Error", b"oh"), "HTTP 500", id="broken"),
        pytest.param(says({"status": "success"}), "", id="other JSON"),
        pytest.param(says([1, 2]), "", id="a list"),
        pytest.param(answers("200 OK", b"[" * 100_000), "", id="deep JSON"),
        pytest.param(answers("200 OK", b""), "", id="nothing"),
        pytest.param(hangs, "", id="silence"),
        pytest.param(drips, "", id="drips"),
        pytest.param(breaks_off, "", id="half an answer"),
        pytest.param(talks_nonsense, "", id="no HTTP"),
        pytest.param(floods, "", id="no end"),
    ],
)
async def test_an_answer_that_is_none_is_a_red_row_of_each_store(manner: Manner, words: str) -> None:
    async with Service(manner) as service:
        limits = {"url": service.url, "timeout_s": 0.5}
        cluster = ClusterSettings(
            name="alpha",
            logs=(
                LogStoreSettings.model_validate({"kind": "loki", **limits}),
                LogStoreSettings.model_validate({"kind": "victorialogs", **limits}),
            ),
            metrics=(MetricStoreSettings.model_validate(limits),),
        )
        found = await checked(cluster)
    assert set(reds(found)) == {"loki", "victorialogs", "prometheus"}, found.rows
    for row in reds(found).values():
        assert row.means
        assert row.remedy
        assert "s3cret" not in row.means + row.remedy + row.read
    assert words in reds(found)["loki"].means


@pytest.mark.parametrize("mode", [0o644, 0o600])
async def test_a_secret_that_cannot_be_used_is_a_red_row_and_the_other_sources_are_asked(
    tmp_path: Path, mode: int
) -> None:  # fmt: skip
    secret = tmp_path / "token"
    if mode != 0o600:
        secret.write_text("hush")
        secret.chmod(mode)
    async with Service(says({"data": []})) as service:
        cluster = ClusterSettings(
            name="alpha",
            logs=(LogStoreSettings(kind="loki", url=service.url, token_file=secret),),
            metrics=(MetricStoreSettings(url=service.url),),
        )
        found = await checked(cluster)
    assert str(secret) in reds(found)["loki"].means
    assert len(service.requests) > 0
    assert all("hush" not in row.means for row in found.rows)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetricStore]:
    with metric_store(request.param, tmp_path / "metrics") as running:
        yield running


async def test_samples_that_are_old_from_the_future_or_no_numbers_are_red(store: MetricStore) -> None:
    now_s = SystemClock().now().timestamp()
    gpu = {"Hostname": "gpu001", "gpu": "0"}
    old = [(now_s - 290.0, 1.0), (now_s - 280.0, 2.0)]
    store.write([Written(name=UTIL, labels=gpu, samples=old)])
    store.write([Written(name=POWER, labels={**gpu, "gpu": "1"}, samples=[(now_s + 150.0, 3.0)])])
    if store.kind == "prometheus":  # the other drops what is no number
        nothing = [(now_s - 285.0, float("nan")), (now_s - 270.0, float("nan"))]
        store.write([Written(name=UTIL, labels={**gpu, "gpu": "2"}, samples=nothing)])
    cluster = ClusterSettings(name="alpha", metrics=(MetricStoreSettings(url=store.url),))
    found = await checked(cluster, load_pack(read_texts()))
    rows = {row.name: row for row in found.rows if row.source == "prometheus"}
    assert rows["samples"].level is Level.BAD, rows
    assert rows["times of samples"].level is Level.BAD, rows
    assert rows["times of samples"].read == f"1 series of {POWER}"
    if store.kind == "prometheus":
        assert (rows["no numbers"].level, rows["no numbers"].read) == (Level.WARN, f"1 of 2 of {UTIL}")
