"""Settings of the stores that a site has for its logs and metrics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

LabelName = Annotated[str, Field(max_length=200, pattern=r"^([A-Za-z_][A-Za-z0-9_.:-]*)?$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreSettings(_Strict):
    """What every store has that is asked over HTTP."""

    name: str = Field(default="", max_length=40, pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]*)?$")
    """What it is called in coverage and alarms; empty: its kind."""
    url: str
    """Its address, http:// or https://, without user and password."""
    timeout_s: float = Field(default=10.0, ge=0.1, le=120)
    """How long one query may take."""
    tenant: str = Field(default="", max_length=150, pattern=r"^[A-Za-z0-9!._*'():|-]*$")
    """The tenant: of Loki its id (`X-Scope-OrgID`), of VictoriaLogs `AccountID:ProjectID`; empty: none."""
    user: str = ""
    """The user of basic authentication; its password is in `password_file`."""
    password_file: Path | None = None
    """A file of mode 0600 with that password."""
    token_file: Path | None = None
    """A file of mode 0600 with a bearer token."""
    ca_file: Path | None = None
    """A PEM file with the authorities that may vouch for the store; unset: those of this machine."""
    cert_file: Path | None = None
    """A PEM file with our own certificate, where the store asks for one."""
    key_file: Path | None = None
    """The PEM file with its key."""

    @property
    def called(self) -> str:
        """What it is called: its name, else its kind."""
        return self.name or str(getattr(self, "kind", "store"))

    @model_validator(mode="after")
    def _proves_who_it_is_in_one_way(self) -> Self:
        if self.token_file is not None and self.user:
            message = "has both user and token_file: keep the one that the store takes"
            raise ValueError(message)
        if self.password_file is not None and not self.user:
            message = "has a password_file and no user"
            raise ValueError(message)
        if (self.cert_file is None) != (self.key_file is None):
            message = "needs cert_file and key_file together"
            raise ValueError(message)
        return self

    @field_validator("url")
    @classmethod
    def _is_of_the_web(cls, url: str) -> str:
        if not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:_-]+(/[!-~]*)?", url) or not {"@", "?", "#"}.isdisjoint(url):
            message = (
                "should begin with http:// or https://, hold neither user nor password, which have own settings, and "
                "end with its path"
            )
            raise ValueError(message)
        return url


def _naming_the_job(text: str) -> str:
    """A template for the label of jobs. Raises ValueError for one that is the same for all."""
    if "{raw_id}" not in text:
        message = "should have {raw_id} in it, the job's id"
        raise ValueError(message)
    return text


class LogStoreSettings(StoreSettings):
    """A log store, and how its labels name jobs, nodes and ranks."""

    kind: Literal["loki", "victorialogs"]
    """Which store this is."""
    match: dict[str, str] = Field(default_factory=dict)
    """Labels that every stream of this cluster has, such as `cluster: alpha`."""
    job_label: LabelName = "job_id"
    """The label that names the job."""
    job_value: str = "{raw_id}"
    """Its value, made of `{raw_id}` and `{cluster}`."""
    node_label: LabelName = "node"
    """The label that names the node; empty: none does."""
    node_value: str = "{node}"
    """Its value, made of `{node}`, such as `{node}.example.org`."""
    rank_label: LabelName = ""
    """The label that holds the rank; empty: none does."""
    kernel_match: dict[str, str] = Field(default_factory=dict)
    """Labels of the kernel logs of nodes, such as `unit: kernel`; empty: they are not in this store."""
    poll_s: float = Field(default=2.0, ge=0.2, le=600)
    """How often it is asked for new lines, once for many jobs together."""
    delay_s: float = Field(default=10.0, ge=0.0, le=600)
    """How late lines may come into the store: what is silent for less is not known to be silent."""
    requests_per_s: float = Field(default=5.0, gt=0, le=1000)
    """The most queries a second."""
    prefilter: bool = True
    """Whether the store leaves out lines that no rule and no progress could need. It costs the store time (half a
    megabyte of log a second and core, as measured); without it all lines of followed jobs travel."""

    @model_validator(mode="after")
    def _tells_kernels_from_jobs(self) -> Self:
        if not self.job_label:
            message = "needs a job_label: the label by which lines are known to be a job's"
            raise ValueError(message)
        taken = ({self.job_label, self.node_label} - {""}) & (self.match.keys() | self.kernel_match.keys())
        if taken:
            message = f"has one value for {min(taken)}, which is to name many: leave it out of match and kernel_match"
            raise ValueError(message)
        if not self.kernel_match:
            return self
        if not self.node_label:
            message = "has a kernel_match and no node_label, by which kernel lines are known to be a node's"
            raise ValueError(message)
        if self.kernel_match.items() <= self.match.items():
            message = (
                "kernel_match has nothing beside match, so what jobs write would count as what kernels say: "
                "name a label that kernel logs alone have"
            )
            raise ValueError(message)
        return self

    @field_validator("job_value")
    @classmethod
    def _names_the_job(cls, text: str) -> str:
        return _naming_the_job(text)

    @field_validator("node_value")
    @classmethod
    def _names_the_node(cls, text: str) -> str:
        if text.count("{node}") != 1:
            message = "should have {node} in it once"
            raise ValueError(message)
        return text


class ProgressSeriesSettings(_Strict):
    """Series by which jobs export their own progress. A name that is empty is not asked for."""

    job_label: LabelName = "job_id"
    """The label that names the job."""
    job_value: str = "{raw_id}"
    """Its value, made of `{raw_id}` and `{cluster}`."""
    step: str = ""
    """The series with the step."""
    loss: str = ""
    """The series with the loss."""
    grad_norm: str = ""
    """The series with the norm of the gradient."""
    step_time_s: str = ""
    """The series with the time of a step in seconds."""
    throughput: str = ""
    """The series with the throughput, in any unit."""

    @field_validator("job_value")
    @classmethod
    def _names_the_job(cls, text: str) -> str:
        return _naming_the_job(text)


class MetricStoreSettings(StoreSettings):
    """A metric store: Prometheus, VictoriaMetrics, or what speaks their query API."""

    kind: Literal["prometheus"] = "prometheus"
    """Which kind of store this is."""
    match: dict[str, str] = Field(default_factory=dict)
    """Labels that every series of this cluster has, such as `cluster: alpha`."""
    node_label: LabelName = ""
    """The label that names the node; empty: the first that a series has of Hostname, node, nodename, instance."""
    node_value: str = "{node}"
    """Its value, made of `{node}`; a port behind it counts for nothing."""
    poll_s: float = Field(default=15.0, ge=0.5, le=600)
    """How often it is asked; as often as it scrapes is enough."""
    requests_per_s: float = Field(default=10.0, gt=0, le=1000)
    """The most queries a second."""
    progress: ProgressSeriesSettings | None = None
    """Series by which jobs export their own progress; unset: none do."""

    @field_validator("node_value")
    @classmethod
    def _names_the_node(cls, text: str) -> str:
        if text.count("{node}") != 1:
            message = "should have {node} in it once"
            raise ValueError(message)
        return text


class FilesSettings(_Strict):
    """Log files, read where they lie."""

    kind: Literal["files"] = "files"
    """Which kind of source this is."""

    @property
    def called(self) -> str:
        """What it is called."""
        return self.kind


LogSourceSettings = Annotated[
    Annotated[FilesSettings, Tag("files")] | Annotated[LogStoreSettings, Tag("store")],
    Discriminator(
        lambda value: (
            "files" if (value.get("kind") if isinstance(value, dict) else value.kind) in (None, "files") else "store"
        )
    ),
]
"""One source of logs, by kind: `files`, `loki`, `victorialogs`."""
