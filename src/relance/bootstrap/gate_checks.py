"""The gates of a cluster as its settings and this host have them: for `relance check cluster`, without a server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.bootstrap.sites import rules_of, zone_of
from relance.bootstrap.states import StateFolder
from relance.config import ClusterSettings, Settings
from relance.controlling.ledger import STOP_NAME
from relance.controlling.watch_marks import mark_in
from relance.domain.quiet_hours import QuietHours, quiet_now
from relance.domain.watchdogs import why_not_watching
from relance.recovery.sites import ClusterRules


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One gate: whether it is open now for somebody, what it lets through, and when it changes by itself."""

    name: str
    open: bool
    says: str
    changes_at: datetime | None = None
    """When time alone closes it, or opens it; None: time alone does not."""


def gate_checks(settings: Settings, cluster: ClusterSettings, now: datetime) -> tuple[GateCheck, ...]:
    """Every gate that settings and this host tell of. Raises SettingError for a bad step pattern.

    Stage, switches, approvals and the lease are the server's to tell: `relance mode` and `relance explain` show them.
    """
    rules = rules_of(cluster, zone_of(settings))
    most = rules.limits.restarts.at_once
    return (
        GateCheck(name="stage", open=True, says="set with `relance mode`, for the cluster and for each partition"),
        _partitions(rules),
        _opt_in(rules),
        *_quiet(rules, now),
        GateCheck(name="recoveries", open=most > 0, says=f"at most {most} at once (`limits.restarts.at_once`)"),
        _stop(StateFolder(path=settings.state_dir), cluster.name),
        _watchdog(StateFolder(path=settings.state_dir), cluster.name, now),
    )


def _partitions(rules: ClusterRules) -> GateCheck:
    if rules.act_partitions is None:
        return GateCheck(name="partition", open=True, says="in all partitions that are served may be acted")
    named = ", ".join(sorted(rules.act_partitions)) or "none"
    return GateCheck(
        name="partition", open=bool(rules.act_partitions), says=f"may be acted in {named} (`act_partitions`)"
    )


def _opt_in(rules: ClusterRules) -> GateCheck:
    wish = "else a job has to ask for it in its comment"
    if rules.opted_in is not None and not rules.opted_in:
        return GateCheck(name="opt_in", open=True, says="no job is opted in: each has to ask for it in its comment")
    where = f"in {', '.join(sorted(rules.opted_in))}" if rules.opted_in is not None else "in all partitions"
    accounts = rules.opted_in_accounts
    whose = f" of account {' or '.join(sorted(accounts))}" if accounts is not None else ""
    return GateCheck(name="opt_in", open=True, says=f"jobs {where}{whose} are opted in; {wish}; tasks of arrays always")


def _quiet(rules: ClusterRules, now: datetime) -> tuple[GateCheck, ...]:
    zone = getattr(rules.quiet.zone, "key", "UTC")
    if not rules.quiet.hours:
        return (GateCheck(name="quiet_hours", open=True, says="there are none"),)
    return tuple(_of_hours(rules, item, zone, now) for item in rules.quiet.hours)


def _of_hours(rules: ClusterRules, hours: QuietHours, zone: str, now: datetime) -> GateCheck:
    concerned = tuple(sorted(hours.partitions))[:1]
    quiet = quiet_now(rules.quiet, concerned, now)
    says = f"{hours.words} ({zone})"
    if quiet is not None:
        return GateCheck(name="quiet_hours", open=False, says=f"{says}: {quiet.words}", changes_at=quiet.until)
    return GateCheck(name="quiet_hours", open=True, says=says, changes_at=rules.quiet.next_after(concerned, now))


def _stop(folder: StateFolder, cluster: str) -> GateCheck:
    path = folder.controller(cluster) / STOP_NAME
    try:
        is_there = path.exists()
    except OSError as error:
        return GateCheck(
            name="controller", open=False, says=f"whether {path} is there cannot be read: {error.strerror}"
        )
    if is_there:
        return GateCheck(name="controller", open=False, says=f"{path} is there: nothing begins until it is removed")
    return GateCheck(name="controller", open=True, says=f"{path} is not there; it would stop all that is new")


def _watchdog(folder: StateFolder, cluster: str, now: datetime) -> GateCheck:
    """Whether somebody would free a job that we hold: no hold is taken else, and a restart does without."""
    mark = mark_in(folder.controller(cluster))()
    served = mark.partitions if mark is not None else ()
    against = why_not_watching(mark, cluster, served[0] if served else "", now)
    if against:
        return GateCheck(name="watchdog", open=False, says=f"{against}: see `relance watchdog-settings`")
    where = f"partition {', '.join(served)}" if served else "all partitions"
    return GateCheck(name="watchdog", open=True, says=f"it watches {where} at stage act")
