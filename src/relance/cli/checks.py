"""`relance check`: what Relance sees of one job, what it needs of a cluster, and whether signals arrive."""

from __future__ import annotations

import importlib

import click

from relance.cli.asking import Asking, asks
from relance.cli.screens import Screen
from relance.domain.findings import Sight
from relance.recovery import wordings
from relance.recovery.breakers import BreakerState
from relance.recovery.desks import DeskState
from relance.recovery.job_checks import JobCheck

FORMS = {
    "cluster": ("relance.cli.cluster_checks", "check_cluster"),
    "signals": ("relance.cli.signal_checks", "check_signals"),
    "marker": ("relance.cli.marker_checks", "check_marker"),
}
"""Module and name of the commands behind `relance check cluster` and the like; each loads only when it is called."""
_TONES = {Sight.SEEN: "good", Sight.LAGGING: "", Sight.MISSING: "warn", Sight.REFUSED: "bad", Sight.UNKNOWN: "quiet"}


class CheckGroup(click.Group):
    """Takes `cluster`, `signals` and `marker` as names of commands, and anything else as that of a job."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The forms that there are."""
        return [*super().list_commands(ctx), *FORMS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a form."""
        if cmd_name not in FORMS:
            return super().get_command(ctx, cmd_name)
        module, name = FORMS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments: a first word that names no command belongs to the job's own."""
        if args[0] in self.list_commands(ctx):
            return super().resolve_command(ctx, args)
        return "job", check_job, args


@click.group(
    "check",
    cls=CheckGroup,
    context_settings={"ignore_unknown_options": True},
    subcommand_metavar="JOB | cluster [NAME] | signals | marker",
)
def check() -> None:
    """Check a job, a cluster, or whether signals arrive.

    `relance check JOB` is short for `relance check job JOB`.
    """


@check.command("job")
@click.argument("job")
@asks
def check_job(ask: Asking, /, job: str) -> None:
    """Say what Relance sees of JOB: settings, logs, stage, what it would do."""
    found = ask.client.job_check(job)
    if ask.screen.as_json:
        ask.screen.data(found)
    else:
        show_check(ask.screen, found)


def show_check(screen: Screen, found: JobCheck) -> None:
    """What is seen of a job, and what would be done."""
    row = found.job
    screen.line(f"{row.name or row.job.raw_id} ({row.job.raw_id}) of {row.user} in {row.partition}: {row.headline}")
    screen.fact("settings", "; ".join(found.settings) or "none of its own")
    for note in found.notes:
        screen.fact("note", note, "warn")
    for log in found.logs:
        screen.fact("log", f"{log.path}: {log.words}", _TONES[log.sight])
    if not found.logs:
        screen.fact("log", "none is known yet")
    for number, way in enumerate(found.ways, 1):
        screen.fact("to mend it" if number == 1 else "or", way)
    screen.fact("stage", f"{row.stage.stage.value} ({'; '.join(row.stage.why)})")
    screen.fact("would do", found.would)
    for desk in found.providers:
        screen.fact(
            "asked outside", f"{desk.name}: {_doing(desk)}", "" if desk.state is BreakerState.CLOSED else "warn"
        )


def _doing(desk: DeskState) -> str:
    said = wordings.count(desk.opinions, "opinion")
    counted = f"{said}, {desk.nothing_said + desk.not_answerable} without an answer"
    counted += f", {wordings.count(desk.errors, 'error')}, {desk.left_out} not asked"
    left = f" for {wordings.duration(desk.left_alone_s)} more" if desk.left_alone_s else ""
    why = f"; last: {desk.last_error}" if desk.last_error else ""
    return f"{wordings.name(desk.state.value)}{left} ({counted}){why}"
