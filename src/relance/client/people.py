"""`ApiClient`: what people ask and order from the command line, as typed values."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx2

from relance.client.exchanges import CONNECT_S, PREFIX, bytes_of, connection, data_of, unreachable, value_of
from relance.domain.events import AdviceApproved, AdviceDenied, StormCleared
from relance.domain.requests import Request, RequestRecord
from relance.domain.stages import EndRunning, Stage, StageSetting
from relance.ports.tokens import TokenRole
from relance.recovery.figures import Figures
from relance.recovery.job_checks import JobCheck
from relance.recovery.proving.values import Proofs
from relance.recovery.rows import AdviceRow, HistoryRow, IncidentItem, JobRow, JobStage, NodeRow, StageRow, StormRow
from relance.recovery.stories import IncidentStory, JobStory

REPORT_S = 180.0
"""How long to wait for the report: it is made from every job of its window."""


class ApiClient:
    """One call per address of the API. Every call may raise ServerUnreachableError or ServerRefusedError."""

    def __init__(
        self,
        url: str,
        token: str,
        transport: httpx2.BaseTransport | None = None,
        proof: httpx2.Auth | None = None,
    ) -> None:
        """Talk to the server at `url`, with a token or a proof of who asks; `transport` replaces the network."""
        self._client = httpx2.Client(**connection(url, token), transport=transport, auth=proof)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._client.close()

    def me(self) -> dict[str, str]:
        """Name and role of the token."""
        return _texts(self._data("GET", "/me"))

    def jobs(self, cluster: str | None = None, user: str | None = None, limit: int = 200) -> tuple[JobRow, ...]:
        """Jobs, most recently changed first."""
        found: tuple[JobRow, ...] = self._value(
            tuple[JobRow, ...], "GET", "/jobs", cluster=cluster, user=user, limit=limit
        )
        return found

    def job_story(self, job: str) -> JobStory:
        """The story of one job."""
        found: JobStory = self._value(JobStory, "GET", f"/jobs/{_part(job)}/story")
        return found

    def kept_log(self, job: str, digest: str) -> bytes:
        """What was kept of one of a job's logs."""
        return bytes_of(self._send("GET", f"/jobs/{_part(job)}/kept/{_part(digest)}"))

    def job_check(self, job: str) -> JobCheck:
        """What is seen of one job, and what would be done."""
        found: JobCheck = self._value(JobCheck, "GET", f"/jobs/{_part(job)}/check")
        return found

    def job_stage(self, job: str) -> JobStage:
        """The effective stage of one job."""
        found: JobStage = self._value(JobStage, "GET", f"/jobs/{_part(job)}/stage")
        return found

    def job_history(self, job: str) -> tuple[HistoryRow, ...]:
        """All events of one job."""
        found: tuple[HistoryRow, ...] = self._value(tuple[HistoryRow, ...], "GET", f"/jobs/{_part(job)}/history")
        return found

    def incidents(
        self,
        *,
        open_only: bool = False,
        cluster: str | None = None,
        since: datetime | None = None,
        limit: int = 200,
    ) -> tuple[IncidentItem, ...]:
        """Incidents, newest first."""
        found: tuple[IncidentItem, ...] = self._value(
            tuple[IncidentItem, ...],
            "GET",
            "/incidents",
            open_only=open_only or None,
            cluster=cluster,
            since=since.isoformat() if since else None,
            limit=limit,
        )
        return found

    def incident_story(self, incident: str) -> IncidentStory:
        """The story of one incident, by its id or that of its advice or action."""
        found: IncidentStory = self._value(IncidentStory, "GET", f"/incidents/{_part(incident)}")
        return found

    def advice(self, cluster: str | None = None) -> tuple[AdviceRow, ...]:
        """The advice in force."""
        found: tuple[AdviceRow, ...] = self._value(tuple[AdviceRow, ...], "GET", "/advice", cluster=cluster)
        return found

    def nodes(self, cluster: str | None = None) -> tuple[NodeRow, ...]:
        """Nodes with state, exclusions, suspicions."""
        found: tuple[NodeRow, ...] = self._value(tuple[NodeRow, ...], "GET", "/nodes", cluster=cluster)
        return found

    def history(self, after: int | None = None, limit: int = 100) -> tuple[HistoryRow, ...]:
        """Events beyond a position, or the newest."""
        found: tuple[HistoryRow, ...] = self._value(tuple[HistoryRow, ...], "GET", "/history", after=after, limit=limit)
        return found

    def stages(self, cluster: str | None = None) -> tuple[StageRow, ...]:
        """The stages of each cluster."""
        found: tuple[StageRow, ...] = self._value(tuple[StageRow, ...], "GET", "/stages", cluster=cluster)
        return found

    def figures(self, since: datetime | None = None, cluster: str | None = None) -> Figures:
        """Times and counts."""
        found: Figures = self._value(
            Figures, "GET", "/figures", since=since.isoformat() if since else None, cluster=cluster
        )
        return found

    def report(self, since: datetime, cluster: str | None = None, partition: str | None = None) -> Proofs:
        """What observing proved since then; it may take a while."""
        wanted: dict[str, object] = {"since": since.isoformat(), "cluster": cluster, "partition": partition}
        found: Proofs = value_of(Proofs, self._send("GET", "/report", params=wanted, answer_s=REPORT_S))
        return found

    def set_stage(
        self,
        stage: Stage,
        cluster: str | None = None,
        partition: str | None = None,
        end_running: frozenset[EndRunning] | None = None,
    ) -> tuple[StageSetting, ...]:
        """Set a stage; a cluster of None means every known one, consents of None stay."""
        body: dict[str, object] = {"stage": stage.value, "cluster": cluster, "partition": partition}
        if end_running is not None:
            body["end_running"] = sorted(kind.value for kind in end_running)
        found: tuple[StageSetting, ...] = self._order(tuple[StageSetting, ...], "PUT", "/stages", body)
        return found

    def switch_job(self, job: str, stage: Stage | None, for_s: float | None = None, reason: str = "") -> JobStage:
        """Set or lift the ceiling of one job."""
        body = {"stage": stage.value if stage else None, "for_s": for_s, "reason": reason}
        found: JobStage = self._order(JobStage, "POST", f"/jobs/{_part(job)}/switch", body)
        return found

    def disagree(self, job: str, text: str) -> JobStage:
        """Say that the verdict on a job is wrong."""
        found: JobStage = self._order(JobStage, "POST", f"/jobs/{_part(job)}/disagree", {"text": text})
        return found

    def approve(
        self, advice_id: str, generation: int, effect_digest: str, for_s: float | None = None
    ) -> AdviceApproved:
        """Say yes to one generation of advice and the effect shown."""
        body = {"generation": generation, "effect_digest": effect_digest, "for_s": for_s}
        found: AdviceApproved = self._order(AdviceApproved, "POST", f"/advice/{_part(advice_id)}/approve", body)
        return found

    def deny(self, advice_id: str, generation: int, reason: str = "") -> AdviceDenied:
        """Say no to one generation of advice."""
        body = {"generation": generation, "reason": reason}
        found: AdviceDenied = self._order(AdviceDenied, "POST", f"/advice/{_part(advice_id)}/deny", body)
        return found

    def ask_of_job(self, job: str, verb: str, reason: str, restart_count: int | None = None) -> Request:
        """Ask for a job to be cancelled, held or released, in the attempt that the person was shown."""
        body = {"verb": verb, "reason": reason, "restart_count": restart_count}
        found: Request = self._order(Request, "POST", f"/jobs/{_part(job)}/requests", body)
        return found

    def ask_of_node(self, cluster: str, node: str, verb: str, reason: str, for_s: float | None = None) -> Request:
        """Ask for a node to be quarantined or drained for some seconds, or returned."""
        body = {"verb": verb, "reason": reason, "for_s": for_s}
        found: Request = self._order(Request, "POST", _requests_of(cluster, node), body)
        return found

    def requests_of_job(self, job: str) -> tuple[RequestRecord, ...]:
        """What was asked about a job, oldest first."""
        found: tuple[RequestRecord, ...] = self._value(tuple[RequestRecord, ...], "GET", f"/jobs/{_part(job)}/requests")
        return found

    def requests_of_node(self, cluster: str, node: str) -> tuple[RequestRecord, ...]:
        """What was asked about a node, oldest first."""
        found: tuple[RequestRecord, ...] = self._value(tuple[RequestRecord, ...], "GET", _requests_of(cluster, node))
        return found

    def storms(self, cluster: str | None = None, *, open_only: bool = False) -> tuple[StormRow, ...]:
        """Incidents that many jobs share, newest first."""
        found: tuple[StormRow, ...] = self._value(
            tuple[StormRow, ...], "GET", "/storms", cluster=cluster, open_only=open_only or None
        )
        return found

    def clear_storm(self, cluster: str, reason: str = "", storm_id: str = "") -> StormCleared:
        """Let restarts come back after a storm."""
        body = {"reason": reason, "storm_id": storm_id}
        found: StormCleared = self._order(StormCleared, "POST", f"/clusters/{_part(cluster)}/storm/clear", body)
        return found

    def tokens(self) -> tuple[dict[str, str], ...]:
        """Name, role and age of every token."""
        return tuple(_texts(item) for item in self._data("GET", "/tokens"))

    def add_token(self, name: str, role: TokenRole) -> str:
        """Make a token and give its secret, which is not shown again."""
        return _texts(self._data("POST", "/tokens", {"name": name, "role": role.value}))["secret"]

    def drop_tokens(self, name: str) -> int:
        """Revoke all tokens of a name; gives how many."""
        return int(self._data("DELETE", f"/tokens/{_part(name)}")["dropped"])

    def _value(self, kind: Any, method: str, path: str, **params: object) -> Any:  # noqa: ANN401 - a value of the kind
        return value_of(kind, self._send(method, path, params=params))

    def _order(self, kind: Any, method: str, path: str, body: object) -> Any:  # noqa: ANN401 - a value of the kind
        return value_of(kind, self._send(method, path, body=body))

    def _data(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON data
        return data_of(self._send(method, path, body=body))

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, object] | None = None,
        body: object = None,
        answer_s: float | None = None,
    ) -> httpx2.Response:
        wanted = {name: str(value) for name, value in (params or {}).items() if value is not None}
        limit = httpx2.Timeout(answer_s, connect=CONNECT_S) if answer_s else httpx2.USE_CLIENT_DEFAULT
        try:
            return self._client.request(method, PREFIX + path, params=wanted, json=body, timeout=limit)
        except httpx2.TransportError as error:
            raise unreachable(self._client.base_url, error) from error


def _requests_of(cluster: str, node: str) -> str:
    return f"/clusters/{quote(cluster, safe='')}/nodes/{quote(node, safe='')}/requests"


def _part(text: str) -> str:
    """Text as one piece of a path; a job key keeps its slashes."""
    return quote(text, safe="/")


def _texts(data: Any) -> dict[str, str]:  # noqa: ANN401 - JSON data
    return {str(name): str(value) for name, value in dict(data).items()}
