from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from starlette.types import Message, Scope

from relance.api import write_admin_token
from relance.domain import events as e
from relance.domain.encoding import decode
from relance.domain.keys import AttemptKey
from relance.domain.observations import Attachment
from relance.domain.stages import Stage
from relance.domain.streams import Stream
from relance.ports.histories import Append, StorageUnusableError
from relance.ports.tokens import TokenRole
from relance.recovery.rows import JobRow
from relance.recovery.stories import IncidentStory, JobStory
from relance.serving.identities import digest_of
from relance.testing import history_values as values
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_tokens import MemoryTokens
from tests.served.worlds import ADVICE, ASKING, DIGEST, World, secret, world

READING = (
    "/me",
    "/jobs",
    "/jobs/17/story",
    "/jobs/17/stage",
    "/jobs/17/history",
    "/incidents",
    f"/incidents/{ASKING}",
    "/advice",
    "/nodes",
    "/history",
    "/stages",
    "/figures",
    "/report?since=2026-01-01T00:00:00Z",
)


@pytest.mark.parametrize("path", READING)
async def test_everything_that_can_be_read_answers_with_json(path: str) -> None:
    async with (await world()).client(TokenRole.VIEWER) as client:
        answer = await client.get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.text
    assert answer.json()


async def test_answers_are_read_back_by_their_types() -> None:
    made = await world()
    async with made.client(TokenRole.VIEWER) as client:
        rows = decode(tuple[JobRow, ...], (await client.get("/api/v1/jobs")).json())
        story = decode(IncidentStory, (await client.get(f"/api/v1/incidents/{ASKING}")).json())
    assert rows == await made.parts.queries().jobs()
    assert story == await made.parts.queries().incident_story(ASKING)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, "no_such_address"),
        ("DELETE", "/jobs", None, 404, "no_such_address"),
        ("GET", "/jobs/nobody/story", None, 404, "not_known"),
        ("GET", "/jobs/train/story", None, 409, "ambiguous"),
        ("GET", "/jobs?limit=0", None, 422, "bad_input"),
        ("GET", f"/history?after={2**63}", None, 422, "bad_input"),
        ("GET", f"/events?after={2**63}", None, 422, "bad_input"),
        ("GET", f"/agents/wait?after={2**63}&timeout_s=0", None, 422, "bad_input"),
        ("GET", "/figures?since=0001-01-01T00:00:00%2B14:00", None, 422, "bad_input"),
        ("GET", "/incidents?since=9999-12-31T23:59:59-14:00", None, 422, "bad_input"),
        ("GET", "/incidents/inc-99", None, 404, "not_known"),
        ("POST", "/jobs/17/disagree", {}, 422, "bad_input"),
        ("POST", "/jobs/17/switch", {"stage": "fly"}, 422, "bad_input"),
        ("POST", "/jobs/17/switch", {"stage": "off", "unknown": 1}, 422, "bad_input"),
        ("POST", f"/advice/{ADVICE}/approve", {"generation": 2, "effect_digest": DIGEST}, 409, "refused"),
        ("POST", "/clusters/alpha/storm/clear", {}, 409, "refused"),
        ("PUT", "/stages", {"stage": "observe", "cluster": "alfa"}, 404, "not_known"),
        ("PUT", "/stages", {"stage": "observe", "partition": "gpus"}, 404, "not_known"),
        ("DELETE", "/tokens/nobody", None, 404, "not_known"),
        ("DELETE", "/tokens/admin", None, 409, "refused"),
        ("POST", "/agents/submit", {"not": "a batch"}, 400, "bad_input"),
        ("GET", "/agents/checkpoint?attempt=x", None, 400, "bad_input"),
    ],
)
async def test_every_error_has_the_one_shape(method: str, path: str, body: object, status: int, code: str) -> None:
    async with (await world()).client(TokenRole.ADMIN) as client:
        answer = await client.request(method, f"/api/v1{path}", json=body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "remedy"}
    assert error["code"] == code
    assert error["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'{"as_of": NaN}', b"\xff\xfe", b"null", b"[]"])
async def test_a_body_that_is_no_value_is_bad_input(body: bytes) -> None:
    async with (await world()).client(TokenRole.AGENT) as client:
        for method in ("submit", "report", "claim", "record"):
            answer = await client.post(f"/api/v1/agents/{method}", content=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_input"), answer.text


async def test_a_mistyped_cluster_is_answered_with_those_that_are_known() -> None:
    async with (await world()).client(TokenRole.ADMIN) as client:
        answer = await client.put("/api/v1/stages", json={"stage": "observe", "cluster": "alfa"})
    assert "known: alpha" in answer.json()["error"]["message"]


async def test_one_call_sets_every_cluster_to_observe() -> None:
    made = await world(Stage.ACT)
    await made.append(Stream.of_cluster("beta"), values.stage_set("beta", Stage.ACT))
    async with made.client(TokenRole.OPERATOR) as client:
        answer = await client.put("/api/v1/stages", json={"stage": "observe"})
    assert answer.status_code == 200
    rows = await made.parts.queries().stages()
    settings = [(row.cluster, row.setting.stage, row.setting.set_by) for row in rows if row.setting]
    assert settings == [("alpha", Stage.OBSERVE, "operator"), ("beta", Stage.OBSERVE, "operator")]


async def test_approving_over_the_api_records_the_name_of_the_token() -> None:
    made = await world()
    async with made.client(TokenRole.OPERATOR) as client:
        body = {"generation": 1, "effect_digest": DIGEST, "for_s": 60}
        answer = await client.post(f"/api/v1/advice/{ADVICE}/approve", json=body)
    approved = decode(e.AdviceApproved, answer.json())
    assert (approved.by, approved.until) == ("operator", values.after(90))


async def test_a_token_is_made_listed_without_its_secret_and_revoked() -> None:
    made = await world()
    async with made.client(TokenRole.ADMIN) as client:
        created = await client.post("/api/v1/tokens", json={"name": "grace", "role": "viewer"})
        secret = created.json()["secret"]
        assert created.status_code == 201
        listed = await client.get("/api/v1/tokens")
        assert {"grace", "admin"} <= {item["name"] for item in listed.json()}
        assert secret not in listed.text
        assert digest_of(secret) not in listed.text
        headers = {"Authorization": f"Bearer {secret}"}
        assert (await client.get("/api/v1/me", headers=headers)).json()["name"] == "grace"
        assert (await client.delete("/api/v1/tokens/grace")).json() == {"dropped": 1}
        assert (await client.get("/api/v1/me", headers=headers)).status_code == 401


async def test_an_unexpected_failure_keeps_its_text_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    made = await world()

    async def fail(*_: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(made.history, "clusters", fail)
    transport = made.client(TokenRole.VIEWER)._transport  # noqa: SLF001 - to have errors answered, not raised
    transport.raise_app_exceptions = False  # type: ignore[attr-defined]
    async with made.client(TokenRole.VIEWER) as client:
        client._transport = transport  # noqa: SLF001 - the same
        answer = await client.get("/api/v1/stages")
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    assert answer.json()["error"]["code"] == "internal"


async def test_who_is_killed_while_it_sends_is_no_failure_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    app, sent = (await world()).app(), list[Message]()
    words: list[Message] = [
        {"type": "http.request", "body": b'{"half', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return words.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = {"host": "127.0.0.1", "authorization": f"Bearer {secret(TokenRole.AGENT)}"}
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/v1/agents/submit",
        "raw_path": b"/api/v1/agents/submit",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 40000),
    }
    await app(scope, receive, send)
    assert words == []
    assert sent[0]["status"] == 400
    assert "request_failed" not in capsys.readouterr().out


async def test_a_server_without_its_database_lives_but_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    made = await world()

    async def fail(*_: object) -> int:
        raise StorageUnusableError("the disk is full")

    monkeypatch.setattr(made.history, "head", fail)
    async with made.client(TokenRole.VIEWER) as client:
        assert (await client.get("/healthz")).json() == {"ok": True}
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"ok": False})
        told = await client.get("/api/v1/history")
    assert (told.status_code, told.json()["error"]["code"]) == (503, "storage_unusable")
    assert told.json()["error"]["message"] == "the disk is full"


def sample(text: str, name: str) -> float:
    lines = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


async def scraped(made: World) -> str:
    async with made.client(TokenRole.VIEWER) as client:
        return (await client.get("/metrics")).text


async def test_metrics_count_what_happens_after_the_start_and_show_what_is() -> None:
    made = await world()
    app = made.app()
    async with made.client(TokenRole.VIEWER) as client:
        client._transport.app = app  # type: ignore[attr-defined]  # noqa: SLF001 - one application for both scrapes
        before = (await client.get("/metrics")).text
        assert sample(before, "relance_incidents_closed_total") == 0
        assert sample(before, "relance_incidents_open") == 1
        assert sample(before, "relance_cluster_stage") == Stage.APPROVE.rank
        await made.append(values.job_stream("21"), *values.whole_story("21", "inc-21"))
        after = (await client.get("/metrics")).text
    assert sample(after, "relance_incidents_opened_total") == 1
    assert 'relance_incidents_closed_total{domain="hardware",end="recovered"} 1.0' in after
    assert 'relance_act_seconds_sum{domain="hardware"} 4.5' in after
    assert sample(after, "relance_findings_total") >= 1
    assert 'relance_advice_total{action="restart_excluding",hold="false"} 1.0' in after
    assert 'relance_actions_total{end="succeeded"} 1.0' in after
    assert sample(after, "relance_history_position") == sample(after, "relance_metrics_position")


async def test_metrics_show_a_lost_source_while_it_is_lost() -> None:
    made = await world()
    app = made.app()
    lost = e.SourceLost(cluster="alpha", source="loki", reason="no answer", at=values.NOON)
    async with made.client(TokenRole.VIEWER) as client:
        client._transport.app = app  # type: ignore[attr-defined]  # noqa: SLF001 - one application for all scrapes
        await made.append(Stream.of_cluster("alpha"), lost)
        assert 'relance_source_lost{cluster="alpha",source="loki"} 1.0' in (await client.get("/metrics")).text
        await made.append(Stream.of_cluster("alpha"), e.SourceBack(cluster="alpha", source="loki", at=values.NOON))
        assert sample((await client.get("/metrics")).text, "relance_source_lost") == 0


async def test_the_first_start_writes_an_admin_token_that_only_its_owner_reads(tmp_path: Path) -> None:
    tokens, path = MemoryTokens(), tmp_path / "state" / "admin-token"
    secret = await write_admin_token(path, tokens, ManualClock())
    assert path.read_text() == f"{secret}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    (token,) = await tokens.tokens()
    assert (token.name, token.role, token.digest) == ("admin", TokenRole.ADMIN, digest_of(secret))
    assert await write_admin_token(path, tokens, ManualClock()) == secret
    assert len(await tokens.tokens()) == 1


async def test_a_token_file_that_another_database_wrote_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "admin-token"
    first = await write_admin_token(path, MemoryTokens(), ManualClock())
    second = await write_admin_token(path, MemoryTokens(), ManualClock())
    assert first != second
    assert path.read_text().strip() == second


async def test_a_link_in_place_of_the_token_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, path = tmp_path / "somebody-elses", tmp_path / "admin-token"
    target.write_text("precious")
    path.symlink_to(target)
    await write_admin_token(path, MemoryTokens(), ManualClock())
    assert target.read_text() == "precious"
    assert not path.is_symlink()


async def test_what_was_kept_beside_an_incident_comes_as_bytes_to_be_saved() -> None:
    made, data = await world(), b"\x00 <script>stacks</script>\n"
    attempt = AttemptKey(job=values.job_key(), restart_count=0)
    snapshot = await made.history.load(Stream.of_job(attempt.job))
    piece = Attachment(file="evidence 1: output", start_offset=0, data=data)
    await made.history.append(
        Append(stream=snapshot.stream, expected_version=snapshot.version, events=(), attachments=((attempt, piece),)),
        made.clock.now(),
    )
    (kept,) = await made.history.kept_logs(attempt.job)
    async with made.client(TokenRole.VIEWER) as client:
        answer = await client.get(f"/api/v1/attachments/{kept.digest}")
        unknown = await client.get(f"/api/v1/attachments/{'0' * 64}")
        strange = await client.get("/api/v1/attachments/..%2F..%2Fetc")
    assert answer.content == data
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert (unknown.status_code, strange.status_code) == (404, 404)


async def test_the_end_of_a_log_is_found_in_the_story_of_its_job_and_read_by_its_digest() -> None:
    made = await world()
    attempt = AttemptKey(job=values.job_key(), restart_count=0)
    piece = Attachment(file="/w/slurm-17.out", start_offset=7, data=b"last words\n")
    digest = hashlib.sha256(piece.data).hexdigest()
    kept = e.AttachmentKept(attempt=attempt, file=piece.file, start_offset=7, size_bytes=11, digest=digest)
    snapshot = await made.history.load(Stream.of_job(attempt.job))
    await made.history.append(
        Append(
            stream=snapshot.stream,
            expected_version=snapshot.version,
            events=(kept,),
            attachments=((attempt, piece),),
        ),
        made.clock.now(),
    )
    async with made.client(TokenRole.VIEWER) as client:
        story = decode(JobStory, (await client.get("/api/v1/jobs/17/story")).json())
        answer = await client.get(f"/api/v1/jobs/17/kept/{digest}")
        other = await client.get(f"/api/v1/jobs/17/kept/{'0' * 64}")
    assert [(item.file, item.start_offset) for item in story.kept if item.digest == digest] == [(piece.file, 7)]
    assert (answer.status_code, answer.content) == (200, piece.data)
    assert other.status_code == 404
