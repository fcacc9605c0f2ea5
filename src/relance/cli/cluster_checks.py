"""`relance check cluster`: whether a cluster and this account are fit for observe, and for act."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relance.cli.clusters import one_cluster
from relance.cli.failures import ExitCode, FailureError
from relance.cli.screens import Screen, shown
from relance.domain.stages import Stage
from relance.recovery import wordings

if TYPE_CHECKING:
    from relance.bootstrap.inspections import ClusterCheck, Point

_WORDS = {
    "ok": ("ok", "good"),
    "warn": ("could be better", "warn"),
    "blocks_act": ("refuses act", "bad"),
    "blocks_observe": ("refuses observe", "bad"),
    "unreadable": ("not readable", "bad"),
}
_ORDER = ("blocks_observe", "unreadable", "blocks_act", "warn", "ok")


@click.command("cluster")
@click.argument("name", required=False)
@click.option("--for", "stage", type=click.Choice(["observe", "act"]), default="observe", show_default=True,
              help="For which stage it is to be fit: decides the exit code.")  # fmt: skip
@click.option("--config", type=click.Path(path_type=Path), help="The settings (YAML); default: $RELANCE_CONFIG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def check_cluster(name: str | None, stage: str, config: Path | None, as_json: bool) -> None:  # noqa: FBT001 - an option
    """Say whether a cluster, and the account that asks, are fit for observe and for act.

    NAME is a cluster of the settings; it may be left out where there is one. Run it as the controller's account, on its
    host: it asks by Slurm's own commands, needs no server, and changes nothing.

    Exit code 0: fit for the stage asked for. 5: not fit, and each reason is said with what mends it.
    """
    found = _found(name, config)
    screen = Screen(as_json=as_json)
    if as_json:
        screen.data(found)
    else:
        show(screen, found)
    if not found.is_fit(Stage(stage)):
        reasons = "; ".join(point.means for point in _refusing(found, Stage(stage)))
        raise FailureError(f"{found.cluster} is not fit for {stage}: {reasons}", code=ExitCode.REFUSED)


def show(screen: Screen, found: ClusterCheck) -> None:
    """Every point, the gravest first, then the gates, then what it comes to."""
    who = f"asked as {found.account}" if found.account else ""
    screen.line(", ".join(part for part in (found.cluster, f"{found.scheduler} {found.release}".strip(), who) if part))
    points = sorted(found.points, key=lambda point: _ORDER.index(point.level))
    screen.table(
        ("what", "", "read", "which means", "what mends it"),
        (
            (
                wordings.name(point.name),
                shown(*_WORDS[point.level]),
                point.read or "-",
                point.means,
                point.remedy or "-",
            )
            for point in points
        ),
        empty="nothing was asked",
        sentences=("read", "which means", "what mends it"),
    )
    if found.gates:
        screen.table(
            ("gate", "", "what it lets begin", "changes by itself (UTC)"),
            (
                (
                    wordings.name(gate.name),
                    shown(*(("open", "good") if gate.open else ("closed", "warn"))),
                    gate.says,
                    f"{gate.changes_at:%Y-%m-%d %H:%M}" if gate.changes_at is not None else "-",
                )
                for gate in found.gates
            ),
            empty="",
            sentences=("what it lets begin",),
        )
    for stage, is_fit in (("observe", found.fit_for_observe), ("act", found.fit_for_act)):
        screen.fact(f"for {stage}", "fit" if is_fit else "not fit", "good" if is_fit else "bad")


def _found(name: str | None, config: Path | None) -> ClusterCheck:
    from relance.bootstrap.gate_checks import gate_checks
    from relance.bootstrap.inspections import check_cluster as ask
    from relance.config import SettingError, load_settings
    from relance.ports.clocks import SystemClock

    clock = SystemClock()
    try:
        settings = load_settings(config)
        cluster = one_cluster(settings, name)
        return replace(ask(cluster, clock), gates=gate_checks(settings, cluster, clock.now()))
    except SettingError as error:
        raise FailureError(str(error)) from error


def _refusing(found: ClusterCheck, stage: Stage) -> Iterable[Point]:
    grave = ("blocks_observe",) if stage is Stage.OBSERVE else ("blocks_observe", "unreadable", "blocks_act")
    return (point for point in found.points if point.level in grave)
