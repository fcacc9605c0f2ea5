"""`relance mode`: how far Relance may go, as set and as it comes out."""

from __future__ import annotations

import click

from relance.cli.asking import Asking, asks
from relance.cli.screens import clock, shown
from relance.domain.stages import EndRunning, Stage, StageSetting
from relance.recovery.rows import StageRow
from relance.recovery.tones import tone

_KINDS = [kind.value for kind in EndRunning]


@click.command("mode")
@click.argument("stage", type=click.Choice([stage.value for stage in Stage]), required=False)
@click.option("--cluster", help="Only this cluster; default: all.")
@click.option("--partition", help="Only this partition; a cluster's partition is never above the cluster.")
@click.option("--job", help="Only this job: sets a ceiling for it; without STAGE, says its stage and why.")
@click.option(
    "--end-running",
    "kinds",
    metavar="KINDS",
    help=f"Kinds of fault for which a RUNNING attempt may be ended too, at `act`: {', '.join(_KINDS)}; or `none`.",
)
@asks
def mode(
    ask: Asking, /, stage: str | None, cluster: str | None, partition: str | None, job: str | None, kinds: str | None
) -> None:
    """Show how far Relance may go, or set it to STAGE.

    off: begin nothing. observe: say what it would do. approve: do what a person approved. act: do it, on attempts that
    have ended. The effective stage of a job is the least of cluster, partition, the job's own wish and what health
    allows.

    `relance mode observe` stops all action everywhere, at once. A stage that acts is refused, with every reason, while
    the cluster or the controller's account is not fit for it: see `relance check cluster`.
    """
    if job and (cluster or partition or kinds):
        raise click.UsageError("--job stands alone: its cluster and partition are known")
    if kinds and not stage:
        raise click.UsageError("--end-running needs a STAGE")
    if job:
        _of_job(ask, job, stage)
    elif stage:
        _set(ask, Stage(stage), cluster, partition, _consents(kinds))
    else:
        _show(ask, ask.client.stages(cluster))


def _of_job(ask: Asking, job: str, stage: str | None) -> None:
    found = ask.client.switch_job(job, Stage(stage)) if stage else ask.client.job_stage(job)
    if ask.screen.as_json:
        ask.screen.data(found)
        return
    ask.screen.fact("job", f"{found.name} ({found.job.raw_id}) in {found.partition} on {found.job.cluster}")
    ask.screen.fact("effective", found.effective.stage.value, tone(found.effective.stage))
    for reason in found.effective.why:
        ask.screen.fact("because", reason)
    if found.effective.end_running:
        kinds = ", ".join(sorted(kind.value for kind in found.effective.end_running))
        ask.screen.fact("may end", f"a running attempt, for {kinds}")


def _set(
    ask: Asking, stage: Stage, cluster: str | None, partition: str | None, consents: frozenset[EndRunning] | None
) -> None:
    settings = ask.client.set_stage(stage, cluster, partition, consents)
    if ask.screen.as_json:
        ask.screen.data(settings)
        return
    _show(ask, ask.client.stages(cluster))


def _show(ask: Asking, rows: tuple[StageRow, ...]) -> None:
    if ask.screen.as_json:
        ask.screen.data(rows)
        return
    ask.screen.table(
        ("cluster", "partition", "stage", "may end running", "set by", "set at (UTC)"),
        (
            (
                row.cluster,
                (setting.partition if setting else None) or "-",
                shown(_stage(setting), tone(setting.stage if setting else Stage.OBSERVE)),
                ", ".join(sorted(kind.value for kind in setting.end_running)) if setting else "",
                setting.set_by if setting else "nobody yet",
                clock(setting.set_at) if setting else "-",
            )
            for row in rows
            for setting in (row.setting, *row.partitions)
        ),
        empty="no cluster is known yet: no controller has reported",
    )
    for row in rows:
        ceiling = row.setting.stage if row.setting else Stage.OBSERVE
        for setting in row.partitions:
            if setting.stage.rank > ceiling.rank:
                ask.screen.line(
                    f"{row.cluster} partition {setting.partition}: set to {setting.stage.value}, but the cluster "
                    f"allows {ceiling.value}; it goes back to {setting.stage.value} with the cluster",
                    "warn",
                )
        for cap in row.caps:
            where = f" partition {cap.partition}" if cap.partition else ""
            line = f"{row.cluster}{where}: {cap.effect} while it lasts: {cap.name}: {cap.reason}"
            ask.screen.line(line, "warn")
        for command in dict.fromkeys(_what_mends(row.cluster, cap.name) for cap in row.caps):
            if command:
                ask.screen.line(f"  {command} says what mends it", "quiet")
        for storm in row.storms:
            ask.screen.line(f"{row.cluster}: storm {storm.place}, restarts wait: {storm.reason}", "bad")


def _what_mends(cluster: str, lost: str) -> str:
    """The check that looks closely at what is lost: rights, or a source of signals; our own agents have none."""
    if lost in ("controller", "watcher"):
        return ""
    return f"relance check cluster {cluster}" if lost == "rights" else f"relance check signals --cluster {cluster}"


def _stage(setting: StageSetting | None) -> str:
    return setting.stage.value if setting else "observe (as installed)"


def _consents(kinds: str | None) -> frozenset[EndRunning] | None:
    if kinds is None:
        return None
    if kinds == "none":
        return frozenset()
    names = [name.strip() for name in kinds.split(",")]
    unknown = [name for name in names if name not in _KINDS]
    if unknown:
        raise click.UsageError(f"--end-running knows {', '.join(_KINDS)} and none, not {', '.join(unknown)}")
    return frozenset(EndRunning(name) for name in names)
