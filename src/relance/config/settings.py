"""Settings: what a site writes into its file. Every field has a default that works, or a reason why it cannot."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from relance.config.access import AccessSettings, LocalAccess, SshAccess, place_of
from relance.config.actions import ActionSettings
from relance.config.evidence import EvidenceSettings
from relance.config.gates import OptInSettings, QuietHoursSettings
from relance.config.limits import read_limits
from relance.config.providers import AttributionSettings
from relance.config.sources import FilesSettings, LogSourceSettings, MetricStoreSettings
from relance.domain.limits import Limits
from relance.domain.quiet_hours import QuietWeek, is_always_quiet
from relance.recovery.health import RESERVED

OwnersEvent = Literal[
    "job_stopped",
    "did_not_resume",
    "parked",
    "action_unknown",
    "other_engine",
    "hang",
    "settings",
    "slow",
    "diverged",
    "asked",
    "restarted",
]
OWNERS_EVENTS: tuple[OwnersEvent, ...] = (
    "job_stopped", "did_not_resume", "parked", "action_unknown", "other_engine", "hang", "settings", "slow", "diverged",
    "asked",
)  # fmt: skip


class _Strict(BaseModel):
    """A group of settings; a name that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LocalSchedulerSettings(_Strict):
    """The simulated scheduler of this machine."""

    kind: Literal["local"] = "local"
    """Which kind of scheduler this is."""
    state_dir: Path
    """Folder of the simulated scheduler; its socket lies in it."""


class SlurmSchedulerSettings(_Strict):
    """A Slurm cluster, asked by its own commands: of this host, of another one, or in a container."""

    kind: Literal["slurm"]
    """Which kind of scheduler this is."""
    access: AccessSettings = Field(default_factory=LocalAccess)
    """Where Slurm's commands are: on this host (`local`), or as the kinds `ssh` and `container` say."""
    token_file: Path | None = None
    """Where the cluster asks for tokens (auth/jwt): a file of mode 0600 with the token of Relance's account, read anew
    for each command. Unset: munge, or what Slurm finds by itself."""
    bin_dir: Path | None = None
    """Folder of squeue, scontrol, sacct, scancel and sacctmgr; unset: they are found by PATH. Over SSH the script there
    has it."""
    conf: Path | None = None
    """The cluster's slurm.conf; unset: as the environment says, or where Slurm looks by itself. Over SSH the script
    there has it."""
    partitions: tuple[str, ...] = ()
    """Partitions that are served; empty: all."""
    watch_all: bool = True
    """Whether jobs that nobody opted in are watched too, in observe."""
    wish_files: bool = True
    """Whether a job's folder is searched for its owner's settings, `.relance.yaml`."""
    arm_requeue_where_default: bool = False
    """Where the cluster has JobRequeue=0: whether Relance lets running jobs that are at `act` be requeued, by
    `scontrol update Requeue=1`. Jobs whose owners wrote --no-requeue look the same there."""
    keep_logs: Literal["tail", "rename"] = "tail"
    """What becomes of a job's log at a restart that would empty it: `tail` keeps the last 256 KiB of each file beside
    the incident; `rename` also has the next attempt write to FILE.r1, FILE.r2 and so on, so that nothing is lost."""
    jobs_s: Annotated[float, Field(ge=0.1, le=600)] | None = None
    """How often the queue is read; unset: every `poll_s`. Doubled while an answer takes longer than 0.3 s."""
    nodes_s: Annotated[float, Field(ge=1, le=3600)] = 30.0
    """How often nodes and reservations are read; sooner when something happens to a node, or a restart is under way."""
    accounting_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    """How often accounting is asked again about running jobs that matter; ends are asked about at once."""
    settings_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    """How often the settings of Slurm are read."""
    requests_per_minute: Annotated[float, Field(ge=10, le=6000)] | None = None
    """How many commands may be run in a minute outside restarts; unset: 60, or what `jobs_s` needs."""

    @field_validator("bin_dir", "conf", "token_file")
    @classmethod
    def _is_absolute(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_absolute():
            message = f"{path} is not an absolute path"
            raise ValueError(message)
        return path

    @model_validator(mode="after")
    def _leaves_to_the_script_what_is_there(self) -> Self:
        given = [name for name in ("bin_dir", "conf") if getattr(self, name) is not None]
        if isinstance(self.access, SshAccess) and given:
            option = given[0].replace("_", "-")
            message = f"over SSH {given[0]} is the script's: relance slurm-script --{option} PATH, and not here"
            raise ValueError(message)
        return self


SchedulerSettings = Annotated[
    Annotated[LocalSchedulerSettings, Tag("local")] | Annotated[SlurmSchedulerSettings, Tag("slurm")],
    Discriminator(lambda value: value.get("kind", "local") if isinstance(value, dict) else value.kind),
]
"""How a scheduler is reached, by kind; without one it is the simulated one."""


class ClusterSettings(_Strict):
    """One cluster that is served."""

    name: str = Field(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$")
    """The cluster's name, as it stands in keys, streams and pages."""
    scheduler: SchedulerSettings | None = None
    """How to reach the scheduler; needed where the controller runs."""
    kernel_log: str = ""
    """Path of a node's kernel log, with `{node}`; empty where kernel logs are not at hand."""
    log_roots: tuple[Path, ...] = (Path("/"),)
    """Job logs are only opened below these folders."""
    opt_in: Literal["all", "none"] | OptInSettings | tuple[str, ...] = "none"
    """Whose jobs need no wish of their own: `all`, `none`, a list of partitions, or `partitions` and `accounts`, of
    which both have to be right."""
    file_systems: tuple[Path, ...] = ()
    """Mount points of shared file systems, such as `/lustre`: many jobs that fail on one of them are one storm, which
    holds the jobs on it alone. Unset: the first folder of a job's path, or the first two below `/mnt` and the like."""
    act_partitions: tuple[str, ...] | None = None
    """Partitions in which may be acted at all, whatever stage is set and whatever a job wishes; unset: all that are
    served."""
    quiet_hours: tuple[QuietHoursSettings, ...] = Field(default=(), max_length=32)
    """Hours in which nothing begins. What ends meanwhile is parked, and decided on again at their end."""
    accept_comment_forms: tuple[Literal["aps"], ...] = ()
    """Forms of another recovery engine's comments that are taken for wishes of ours: by naming one you state that the
    other engine is off here. `aps` is `{"APS": {"auto_resume_mode": "requeue", …}}`; until then such a job is observed.
    """
    progress_patterns: dict[str, str] = Field(default_factory=dict)
    """A pattern (RE2 syntax, with groups such as `step` and `loss`) by partition, for logs of no known framework."""
    hang_after_s: Annotated[float, Field(ge=1)] | None = None
    """How long a job may be silent before the log alone confirms a hang; unset: never."""
    poll_s: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    """How often the scheduler is asked when nothing wakes the controller."""
    logs: tuple[LogSourceSettings, ...] = Field(default=(FilesSettings(),), min_length=1, max_length=8)
    """Where jobs' logs are: `files`, `loki`, `victorialogs`; several are read beside each other."""
    metrics: tuple[MetricStoreSettings, ...] = Field(default=(), max_length=8)
    """Where the metrics of nodes and devices are."""
    evidence: EvidenceSettings = Field(default_factory=EvidenceSettings)
    """What is collected of a suspected hang before anything is done about it, and whether it is."""
    actions: ActionSettings = Field(default_factory=ActionSettings)
    """What people may ask Relance to do to jobs and nodes."""
    limits: Limits = Field(default_factory=Limits)
    """The limits of policy and detectors; only what differs from the defaults."""

    @model_validator(mode="after")
    def _tells_its_sources_apart(self) -> Self:
        names = [source.called for source in (*self.logs, *self.metrics)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            message = f"two sources of {self.name} are called {twice}: give one of them another name"
            raise ValueError(message)
        if taken := sorted(RESERVED.intersection(names)):
            message = f"a source may not be called {taken[0]}, which is a part of Relance"
            raise ValueError(message)
        return self

    @field_validator("limits", mode="before")
    @classmethod
    def _read_limits(cls, data: object) -> object:
        return read_limits(data) if isinstance(data, dict) else data

    @field_validator("opt_in", mode="before")
    @classmethod
    def _is_a_list_of_names(cls, value: object) -> object:
        if isinstance(value, str) and value not in {"all", "none"}:
            message = f"should be all, none, or a list of partitions such as [{value}]"
            raise ValueError(message)
        return value

    @field_validator("quiet_hours")
    @classmethod
    def _leave_some_time(cls, hours: tuple[QuietHoursSettings, ...]) -> tuple[QuietHoursSettings, ...]:
        week = QuietWeek(hours=tuple(item.hours for item in hours))
        for partitions in {(), *((name,) for item in hours for name in item.partitions)}:
            if is_always_quiet(week, partitions, datetime(2026, 1, 5, tzinfo=UTC)):
                message = "it would always be quiet: to let nothing begin, leave the stage at observe"
                raise ValueError(message)
        return hours

    @field_validator("kernel_log")
    @classmethod
    def _names_the_node(cls, text: str) -> str:
        if text and "{node}" not in text:
            message = "a kernel log's path needs {node} in it"
            raise ValueError(message)
        if text and not text.startswith("/"):
            message = f"{text} is not an absolute path"
            raise ValueError(message)
        return text

    @field_validator("log_roots", "file_systems")
    @classmethod
    def _are_absolute(cls, roots: tuple[Path, ...]) -> tuple[Path, ...]:
        for root in roots:
            if not root.is_absolute():
                message = f"{root} is not an absolute path"
                raise ValueError(message)
        return roots


class MungeSettings(_Strict):
    """Whether people without a token may ask for their own jobs, and how munge proves who they are."""

    enabled: bool = False
    """Whether munge credentials are taken. The server's machine needs a munged with the cluster's key."""
    socket: str = ""
    """The socket of that munged; empty: where munge itself looks."""
    command: tuple[str, ...] = Field(default=("unmunge",), min_length=1)
    """The command (argument list) that decodes a credential."""
    clusters: tuple[str, ...] = ()
    """Clusters whose users have the uids that a credential proves. Needed where several clusters are served: the same
    uid may be somebody else there."""


class ServerSettings(_Strict):
    """The server: history, API and console."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8642, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    database: str = ""
    """Database URL; empty: SQLite in the state folder. A password belongs in `database_file`, not here."""
    database_file: Path | None = None
    """A file of mode 0600 whose one line is the database URL."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names under which the console is reached, besides loopback."""
    munge: MungeSettings = Field(default_factory=MungeSettings)


class AgentSettings(_Strict):
    """How a watcher or controller of its own process reaches the server."""

    server: str = ""
    """URL of the server; empty: the one named in the state folder."""
    token_file: Path | None = None
    """A file of mode 0600 with the agent's token; unset: the token in the state folder."""


class RuleSettings(_Strict):
    """The site's own rules, beside those that are shipped."""

    files: tuple[Path, ...] = ()
    """Files of the site's own rules, in the format of the shipped ones."""
    off: tuple[str, ...] = ()
    """Ids of rules that do not count here."""
    weights: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    """Other weights, by rule id, from 0 to 1."""


class MailSettings(_Strict):
    """Mail to the owners of jobs."""

    command: tuple[str, ...] = ()
    """The mail command (argument list). With `{to}` (and `{subject}`) in it, it gets the text on standard input;
    without, a whole message with headers, as `sendmail -t -i` takes it. Empty: owners get no mail."""
    to: str = "{user}"
    """The address of an owner, made of the name; such as `{user}@example.org`."""
    sender: str = ""
    """The address in `From`; empty: what the mail command sets."""
    events: tuple[OwnersEvent, ...] = OWNERS_EVENTS
    """What owners are told of; add `restarted` for a mail on restarts too, at most one an hour and job."""

    @field_validator("to")
    @classmethod
    def _is_one_address(cls, to: str) -> str:
        if "{user}" not in to or not re.fullmatch(r"[A-Za-z0-9_{][A-Za-z0-9._{}@+-]*", to):
            message = "should be one address with {user} in it, such as {user}@example.org"
            raise ValueError(message)
        return to

    @field_validator("sender")
    @classmethod
    def _is_an_address(cls, sender: str) -> str:
        if sender and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+-]*(@[A-Za-z0-9.-]+)?", sender):
            message = f"{sender!r} is not an address"
            raise ValueError(message)
        return sender


class NotifySettings(_Strict):
    """Who is told, and how."""

    command: tuple[str, ...] = ()
    """A command (argument list) that gets each notice as JSON on standard input."""
    webhook: str = ""
    """A URL that gets each notice as a JSON POST."""
    webhook_token_file: Path | None = None
    """A file of mode 0600 with a bearer token for the webhook."""
    mail: MailSettings = Field(default_factory=MailSettings)

    @field_validator("webhook")
    @classmethod
    def _is_of_the_web(cls, url: str) -> str:
        if url and not url.startswith(("http://", "https://")):
            message = "a web hook's address begins with http:// or https://"
            raise ValueError(message)
        return url


class Settings(_Strict):
    """Everything that can be set."""

    state_dir: Path
    """Folder for the database, ledgers, tokens; mode 0700."""
    clusters: tuple[ClusterSettings, ...] = ()
    """The clusters that are served."""
    server: ServerSettings = Field(default_factory=ServerSettings)
    agent: AgentSettings = Field(default_factory=AgentSettings)
    rules: RuleSettings = Field(default_factory=RuleSettings)
    notify: NotifySettings = Field(default_factory=NotifySettings)
    attribution: AttributionSettings = Field(default_factory=AttributionSettings)
    time_zone: str = ""
    """The site's time zone, such as `Europe/Paris`, said beside UTC in mails and banners; empty: UTC alone."""

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        if name:
            try:
                ZoneInfo(name)
            except (OSError, ValueError, ZoneInfoNotFoundError) as error:
                message = f"{name} is not a time zone of this machine"
                raise ValueError(message) from error
        return name

    @field_validator("clusters")
    @classmethod
    def _are_different(cls, clusters: tuple[ClusterSettings, ...]) -> tuple[ClusterSettings, ...]:
        """Two clusters of one name would share a stage; two of one scheduler would both restart its jobs."""
        names = [cluster.name for cluster in clusters]
        places = [_place(cluster.scheduler) for cluster in clusters if cluster.scheduler is not None]
        for kind, values in (("name", names), ("scheduler", places)):
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                message = f"two clusters have the {kind} {twice}"
                raise ValueError(message)
        return clusters

    @model_validator(mode="after")
    def _says_whose_uids(self) -> Self:
        """One uid may be two people on two clusters; which of them a credential proves has to be said."""
        wanted, names = self.server.munge, tuple(cluster.name for cluster in self.clusters)
        if unknown := [name for name in wanted.clusters if name not in names]:
            message = f"server.munge.clusters names {', '.join(unknown)}, which is no cluster of these settings"
            raise ValueError(message)
        if wanted.enabled and len(names) > 1 and not wanted.clusters:
            message = f"server.munge.clusters has to say on which of {', '.join(names)} a proven uid is the same person"
            raise ValueError(message)
        return self

    def cluster(self, name: str) -> ClusterSettings | None:
        """The settings of one cluster."""
        return next((item for item in self.clusters if item.name == name), None)


def _place(scheduler: LocalSchedulerSettings | SlurmSchedulerSettings) -> str:
    """What tells one scheduler from another."""
    if isinstance(scheduler, LocalSchedulerSettings):
        return str(scheduler.state_dir)
    return f"slurm of {' '.join(filter(None, (place_of(scheduler.access), str(scheduler.conf or '')))) or 'this host'}"
