"""`relance check signals`: whether the signals of a cluster arrive, and what mends it where they do not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from relance.cli.asking import Duration
from relance.cli.clusters import one_cluster
from relance.cli.failures import ExitCode, FailureError
from relance.cli.screens import Screen, shown
from relance.recovery import wordings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relance.bootstrap.proofs.rows import Row, RuleGroup, SignalCheck

WORDS = {"ok": ("ok", "good"), "warn": ("could be better", "warn"), "bad": ("does not work", "bad")}
_ORDER = ("bad", "warn", "ok")
_IDS_SHOWN = 4
_REASONS = 3
_MOST_WATCHED_S = 600.0
_MOST_SINCE_S = 30 * 86400.0


class _Asked(TypedDict):
    """What is asked of the signals. Times in seconds."""

    job: str | None
    since: float
    watch: float


@click.command("signals")
@click.option("--job", metavar="ID", help="The job whose lines are looked for; default: a few that run.")
@click.option("--since", type=Duration(), default="1h", show_default=True, help="How far back to look, such as 30m.")
@click.option("--watch", type=Duration(), default="5s", show_default=True,
              help="How long to watch for new lines, to tell how late they come.")  # fmt: skip
@click.option("--cluster", "name", metavar="NAME", help="A cluster of the settings; may be left out if there is one.")
@click.option("--config", type=click.Path(path_type=Path), help="The settings (YAML); default: $RELANCE_CONFIG.")
@click.option("--rules", "with_rules", is_flag=True, help="List the rules that can never hit, one by one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def check_signals(
    *, name: str | None, config: Path | None, with_rules: bool, as_json: bool, **asked: Unpack[_Asked]
) -> None:
    """Say whether the signals that the settings name arrive, and what mends it where they do not.

    Every source is asked: whether it answers, whether its labels are there, whether lines of the job arrive and how
    late, whether its progress is recognised, whether nodes have the same names everywhere, and which rules could hit.

    Run it as the watcher's account, on its host. It needs no server and changes nothing.

    Exit code 0: all of it works. 5: something does not, and each red row says what mends it.
    """
    if asked["watch"] > _MOST_WATCHED_S or asked["since"] > _MOST_SINCE_S:
        raise click.UsageError("--watch is 10m at most, and --since 30d")
    screen = Screen(as_json=as_json)
    found = _found(name, config, asked)
    if as_json:
        screen.data({
            "fit": found.fit, "cluster": found.cluster, "since_s": found.since_s, "jobs": found.jobs,
            "rows": found.rows, "rules": found.rules,
        })  # fmt: skip
    else:
        show(screen, found, with_rules=with_rules)
    if not found.fit:
        sentence = f"not all signals of {found.cluster} arrive: {reasons(found.rows)}"
        raise FailureError(sentence, code=ExitCode.REFUSED)


def show(screen: Screen, found: SignalCheck, *, with_rules: bool) -> None:
    """Every row, the red ones first, and what the rules can do with it."""
    screen.line(f"{found.cluster}, signals of the last {wordings.duration(found.since_s)}")
    show_rows(screen, found.rows)
    screen.line()
    _show_rules(screen, found.rules)
    if with_rules:
        for group in found.rules:
            for rule in () if group.can_hit else group.rules:
                screen.line(f"{rule}: {group.means}", "quiet")
    screen.line()
    bad = sum(row.level.value == "bad" for row in found.rows)
    words = "all of them work" if not bad else f"{wordings.count(bad, 'thing')} to mend"
    screen.fact("signals", words, "bad" if bad else "good")


def reasons(rows: Sequence[Row]) -> str:
    """What the first red rows say, in a sentence."""
    red = [f"{row.source}, {row.name}: {row.means}" for row in rows if row.level.value == "bad"]
    more = f"; and {len(red) - _REASONS} more" if len(red) > _REASONS else ""
    return "; ".join(red[:_REASONS]) + more


def show_rows(screen: Screen, rows: Sequence[Row]) -> None:
    """A table of rows, the red ones first."""
    ordered = sorted(rows, key=lambda row: _ORDER.index(row.level.value))
    screen.table(
        ("source", "what", "", "read", "which means", "what mends it"),
        (
            (
                row.source,
                row.name,
                shown(*WORDS[row.level.value]),
                row.read,
                row.means,
                row.remedy or "-",
            )
            for row in ordered
        ),
        empty="nothing was asked",
        sentences=("read", "which means", "what mends it"),
    )


def _show_rules(screen: Screen, groups: Sequence[RuleGroup]) -> None:
    screen.table(
        ("rules asked of", "#rules", "", "which", "which means", "what mends it"),
        (
            (
                group.needs,
                str(len(group.rules)),
                shown("can hit", "good") if group.can_hit else shown("never hit", "warn"),
                _some(group.rules),
                "-" if group.can_hit else group.means,
                group.remedy or "-",
            )
            for group in groups
        ),
        empty="no rule is in force",
        sentences=("which", "which means", "what mends it"),
    )


def _some(rules: Sequence[str]) -> str:
    more = f" and {len(rules) - _IDS_SHOWN} more" if len(rules) > _IDS_SHOWN else ""
    return ", ".join(rules[:_IDS_SHOWN]) + more


def _found(name: str | None, config: Path | None, asked: _Asked) -> SignalCheck:
    from relance.bootstrap.proofs.opening import run_signals
    from relance.bootstrap.proofs.signals import Question
    from relance.bootstrap.watchers import site_pack
    from relance.config import SettingError, load_settings

    question = Question(job=asked["job"], since_s=asked["since"], watch_s=asked["watch"])
    try:
        settings = load_settings(config)
        return run_signals(one_cluster(settings, name), site_pack(settings), question)
    except SettingError as error:
        raise FailureError(str(error)) from error
