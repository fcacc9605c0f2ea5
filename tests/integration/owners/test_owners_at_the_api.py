from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from relance.api import create_app
from relance.domain import events as e
from relance.domain.faults import Scope
from relance.domain.keys import AttemptKey
from relance.domain.observations import Attachment
from relance.domain.stages import Stage
from relance.domain.streams import Stream
from relance.ports.histories import Append
from relance.serving.owners import Owners
from relance.slurm.munge import Asked
from relance.testing import history_values as values
from tests.components.munge import Munged
from tests.served.worlds import ADVICE, DIGEST, World, world

HOST = "localhost:8642"
ADA, EVE = 1000, 1001
"""The owner of the world's jobs, and somebody else."""


@pytest.fixture
async def made(munged: Munged) -> World:
    """A world whose server takes munge credentials."""
    return await world(owners=Owners(munged.munge))


class Person:
    """Somebody without a token at the API, by uid."""

    def __init__(self, made: World, munged: Munged, uid: int) -> None:
        self._client, self._munged, self._uid = made.client(), munged, uid

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx2.Response:
        """Send one request with a credential made for it."""
        request = self._client.build_request(method, path, json=body)
        asked = Asked(
            method=method, target=request.url.raw_path.decode(), host=request.headers["host"], body=request.content
        )
        request.headers.update(self._munged.header(self._uid, asked))
        return await self._client.send(request)


ROUTES = [
    ("GET", "/api/v1/jobs/{job}/story", None),
    ("GET", "/api/v1/jobs/{job}/stage", None),
    ("GET", "/api/v1/jobs/{job}/check", None),
    ("GET", "/api/v1/jobs/{job}/banner?restart_count=1", None),
    ("POST", "/api/v1/jobs/{job}/switch", {"stage": "off"}),
    ("POST", "/api/v1/jobs/{job}/disagree", {"text": "it was my data"}),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
async def test_an_owner_may_ask_for_an_own_job(
    made: World, munged: Munged, method: str, path: str, body: Mapping[str, Any] | None
) -> None:
    answer = await Person(made, munged, ADA).ask(method, path.format(job="17"), body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("uid", [EVE, 0], ids=["somebody", "root"])
@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
async def test_a_job_of_somebody_else_is_as_unknown_as_one_that_is_not_there(
    made: World, munged: Munged, uid: int, method: str, path: str, body: Mapping[str, Any] | None
) -> None:
    person = Person(made, munged, uid)
    for job in ("17", "train", str(values.job_key("17")), "4711"):
        answer = await person.ask(method, path.format(job=job), body)
        assert answer.status_code == 404, answer.text
        assert answer.json()["error"]["message"] == f"no job is known by {job!r}"
    assert (await made.parts.queries().job_stage("17")).effective.stage is Stage.APPROVE


KEPT = "/api/v1/jobs/{job}/kept/{digest}"


async def test_an_owner_reads_the_kept_end_of_the_jobs_own_log_and_of_no_kernel_s(made: World, munged: Munged) -> None:
    own, report = "/home/ada/run/slurm-17.out", await made.history.report("alpha") or made.live.reports["alpha"]
    made.live.reports["alpha"] = replace(report, jobs=tuple(replace(job, log_paths=(own,)) for job in report.jobs))
    digests = [await _keep(made, file, data) for file, data in ((own, b"mine\n"), ("/var/log/n1/kern.log", b"all\n"))]
    ada, eve = Person(made, munged, ADA), Person(made, munged, EVE)
    mine, kernels = [await ada.ask("GET", KEPT.format(job="17", digest=digest)) for digest in digests]
    assert (mine.status_code, mine.content, kernels.status_code) == (200, b"mine\n", 404)
    assert (await eve.ask("GET", KEPT.format(job="17", digest=digests[0]))).status_code == 404


async def _keep(made: World, file: str, data: bytes) -> str:
    """Keep a piece of a log of job 17; gives its digest."""
    attempt, digest = AttemptKey(job=values.job_key("17"), restart_count=0), hashlib.sha256(data).hexdigest()
    snapshot = await made.history.load(Stream.of_job(attempt.job))
    kept = e.AttachmentKept(attempt=attempt, file=file, start_offset=0, size_bytes=len(data), digest=digest)
    piece = Attachment(file=file, start_offset=0, data=data)
    batch = Append(
        stream=snapshot.stream, expected_version=snapshot.version, events=(kept,), attachments=((attempt, piece),)
    )
    await made.history.append(batch, made.clock.now())
    return digest


async def test_a_name_that_others_use_too_means_the_own_job(made: World, munged: Munged) -> None:
    theirs = replace(values.job_seen("99", name="only"), owner_uid=EVE, user="eve")
    mine = values.job_seen("20", name="only")
    await made.append(values.job_stream("99"), theirs)
    await made.append(values.job_stream("20"), mine)
    answer = await Person(made, munged, ADA).ask("GET", "/api/v1/jobs/only/stage")
    assert answer.status_code == 200
    assert answer.json()["job"]["raw_id"] == "20"


async def test_owners_are_refused_everywhere_else(made: World, munged: Munged) -> None:
    addresses = {
        (method.upper(), path)
        for path, methods in create_app(made.parts).openapi()["paths"].items()
        for method in methods
    } - {("GET", "/healthz"), ("GET", "/readyz")}
    theirs = {(method, path.partition("?")[0]) for method, path, _ in ROUTES} | {("GET", KEPT)}
    person = Person(made, munged, ADA)
    assert len(addresses - theirs) > 20
    for method, path in sorted(addresses - theirs):
        answer = await person.ask(method, path)
        assert answer.status_code == 403, (method, path, answer.text)
    body = {"generation": 1, "effect_digest": DIGEST}
    answer = await person.ask("POST", f"/api/v1/advice/{ADVICE}/approve", body)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "not_for_owners"


async def test_a_credential_is_taken_once_and_for_its_own_request(made: World, munged: Munged) -> None:
    target = "/api/v1/jobs/17/story"
    asked = Asked(method="GET", target=target, host=HOST)
    async with made.client() as client:
        header = munged.header(ADA, asked)
        assert (await client.get(target, headers=header)).status_code == 200
        again = await client.get(target, headers=header)
        other = await client.get("/api/v1/jobs/18/story", headers=munged.header(ADA, asked))
        changed = await client.post(
            "/api/v1/jobs/17/switch",
            json={"stage": None},
            headers=munged.header(ADA, Asked(method="POST", target="/api/v1/jobs/17/switch", host=HOST, body=b"{}")),
        )
    for answer, words in ((again, "used before"), (other, "another request"), (changed, "another request")):
        assert answer.status_code == 401
        assert words in answer.json()["error"]["message"]


async def test_a_server_without_munged_says_so(made: World, munged: Munged) -> None:
    target = "/api/v1/jobs/17/story"
    header = munged.header(ADA, Asked(method="GET", target=target, host=HOST))
    munged.end()
    async with made.client() as client:
        answer = await client.get(target, headers=header)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "munge_away"
    assert "munged on the server's machine" in answer.json()["error"]["remedy"]


async def test_a_site_that_did_not_switch_it_on_takes_no_credential(munged: Munged) -> None:
    answer = await Person(await world(), munged, ADA).ask("GET", "/api/v1/jobs/17/story")
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "munge_is_off"


async def test_a_switch_is_signed_by_user_and_uid_and_can_be_lifted(made: World, munged: Munged) -> None:
    person = Person(made, munged, ADA)
    off = await person.ask("POST", "/api/v1/jobs/17/switch", {"stage": "off", "for_s": 14400, "reason": "debugging"})
    assert off.json()["effective"]["stage"] == "off"
    (switched,) = [
        item.event for item in await made.history.read(values.job_stream("17")) if isinstance(item.event, e.JobSwitched)
    ]
    assert (switched.by, switched.reason) == ("ada (uid 1000)", "debugging")
    assert switched.until is not None
    back = await person.ask("POST", "/api/v1/jobs/17/switch", {"stage": None})
    assert back.json()["effective"]["stage"] == "approve"


async def test_what_an_operator_switched_is_not_the_owners_to_lift(made: World, munged: Munged) -> None:
    await made.parts.commands().switch_job("17", Stage.OFF, "grace")
    for stage in (None, "off", "observe"):
        answer = await Person(made, munged, ADA).ask("POST", "/api/v1/jobs/17/switch", {"stage": stage})
        assert answer.status_code == 409
        assert "grace has switched this job" in answer.json()["error"]["message"]
    assert (await made.parts.queries().job_stage("17")).effective.stage is Stage.OFF


async def test_what_relance_switched_by_itself_is_the_owners_to_lift(made: World, munged: Munged) -> None:
    await made.parts.commands().switch_job("17", Stage.OBSERVE, "relance")
    answer = await Person(made, munged, ADA).ask("POST", "/api/v1/jobs/17/switch", {"stage": None})
    assert answer.json()["effective"]["stage"] == "approve"


@pytest.mark.parametrize("stage", ["approve", "act"])
async def test_an_owner_cannot_switch_a_job_up(made: World, munged: Munged, stage: str) -> None:
    answer = await Person(made, munged, ADA).ask("POST", "/api/v1/jobs/17/switch", {"stage": stage})
    assert answer.status_code == 409


async def test_disagreeing_is_a_label_and_ends_all_action(made: World, munged: Munged) -> None:
    answer = await Person(made, munged, ADA).ask("POST", "/api/v1/jobs/17/disagree", {"text": "it was my data"})
    assert answer.json()["effective"]["stage"] == "observe"
    story = await made.parts.queries().job_story("17")
    assert "said to be wrong: it was my data" in story.notes


@pytest.mark.parametrize("file", ["/kernel/n0/messages", 'loki:{node="n0",unit="kernel"}'])
async def test_lines_of_kernel_logs_are_told_and_not_quoted(munged: Munged, file: str) -> None:
    made = await world(owners=Owners(munged.munge))
    hit = replace(values.rule_hit(0, excerpt="Xid 79 pid=77 name=secret"), scope=Scope.KERNEL, file=file)
    reached = values.verdict_reached("inc-17")
    summary = 'GPU fell off the bus on n0: the kernel says so: "Xid 79 pid=77 name=secret"'
    verdict = replace(reached.verdict, evidence=(hit,), summary=summary)
    await made.append(values.job_stream("17"), replace(reached, verdict=verdict))
    answer = await Person(made, munged, ADA).ask("GET", "/api/v1/jobs/17/story")
    assert "secret" not in answer.text
    assert "kernel log of n0" in answer.json()["quote"]["text"]
    assert answer.json()["happened"] == "GPU fell off the bus on n0: the kernel says so"


@pytest.mark.parametrize(
    ("line", "told"),
    [("RuntimeError: NCCL error", ': "RuntimeError: NCCL error"'), ("Xid 79 pid=77 name=secret", "")],
    ids=["own", "of a kernel"],
)
async def test_a_sentence_quotes_a_line_only_where_it_is_the_jobs_own(munged: Munged, line: str, told: str) -> None:
    made = await world(owners=Owners(munged.munge))
    hits = (
        replace(values.rule_hit(0, excerpt="RuntimeError: NCCL error"), file="/home/ada/train.out"),
        replace(
            values.rule_hit(1, excerpt="Xid 79 pid=77 name=secret"), scope=Scope.KERNEL, file="/kernel/n0/messages"
        ),
    )
    reached = values.verdict_reached("inc-17")
    verdict = replace(reached.verdict, evidence=hits, summary=f'GPU fell off the bus on n0: it says so: "{line}"')
    await made.append(values.job_stream("17"), replace(reached, verdict=verdict))
    answer = await Person(made, munged, ADA).ask("GET", "/api/v1/jobs/17/story")
    assert answer.json()["quote"]["text"] == "RuntimeError: NCCL error"
    assert answer.json()["happened"] == f"GPU fell off the bus on n0: it says so{told}"
