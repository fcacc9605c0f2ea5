"""What the terminal shows: a panel per fault while it runs, or line by line, and the end. Pure."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from relance.cli.demos import settings
from relance.cli.demos.acts import Act, Phase
from relance.cli.demos.faults import FaultName
from relance.cli.demos.plays import Scene
from relance.cli.demos.results import MILESTONE_WORDS, advice, milestone_line, outcome, verdict

_ROWS = 36
"""So many rows have room for all panels."""
_AT_REST = frozenset({Phase.WAITING, Phase.MENDED, Phase.OVER})
_LAST_COLUMNS = ("detect", "act", "first_step", "beyond", "over")
_GOOD, _BAD, _QUIET, _NOW = "green", "red", "dim", "cyan"


def screen(scene: Scene, rows: int = _ROWS) -> RenderableType:
    """The live display, for a terminal of so many rows: on a low one only what goes on now has a panel."""
    parts = [_line(act, scene) if rows < _ROWS and act.phase in _AT_REST else _panel(act, scene) for act in scene.acts]
    return Group(_head(scene), *parts, _foot(scene))


def _head(scene: Scene) -> Text:
    roles = "server, watcher and controller apart" if scene.plan.apart else "relance up"
    where = " of a private Slurm cluster" if scene.plan.on_slurm else ""
    ranks = settings.NODES_PER_JOB * settings.RANKS_PER_NODE
    return Text.assemble(
        ("Relance", "bold"),
        f"  {roles}; each job trains a small model on {settings.NODES_PER_JOB} nodes{where} with {ranks} processes",
        (f"  {scene.duration_s:.0f} s", _QUIET),
    )


def _panel(act: Act, scene: Scene) -> Panel:
    wrong = scene.problems.get(act.fault.name)
    body = Group(*_body(act, wrong))
    return Panel(
        body,
        title=Text.assemble((act.fault.title, "bold"), (f"  {act.fault.job}", _QUIET)),
        title_align="left",
        subtitle=Text(_mark(act, wrong)),
        subtitle_align="right",
        border_style=_colour(act, wrong),
        padding=(0, 1),
    )


def _line(act: Act, scene: Scene) -> Text:
    wrong = scene.problems.get(act.fault.name)
    words = outcome(act) if not wrong else "; ".join(wrong)
    line = Text(no_wrap=True, overflow="ellipsis")
    return line.append(f"  {act.fault.title}", style=_colour(act, wrong)).append(f"  {words}", style=_QUIET)


def _body(act: Act, wrong: tuple[str, ...] | None) -> Iterator[RenderableType]:
    if act.phase in (Phase.WAITING, Phase.WARMING, Phase.READY):
        yield Text(_warm_up(act), style=_QUIET, no_wrap=True, overflow="ellipsis")
        return
    yield Text.assemble((act.fault.done, ""), (f"  {_where(act)}", _QUIET))
    if act.milestones:
        yield Text.assemble(("seconds: ", _QUIET), milestone_line(act))
    if verdict(act):
        yield Text(verdict(act), no_wrap=True, overflow="ellipsis")
        yield Text.assemble(
            ("advice: ", _QUIET), (advice(act) or "not yet", "bold"), ("  outcome: ", _QUIET), outcome(act)
        )
    elif act.phase is Phase.OVER or act.fault.expectation.is_left_alone:
        yield Text(outcome(act))
    for sentence in wrong or ():
        yield Text(sentence, style=_BAD)


def _warm_up(act: Act) -> str:
    if act.phase is Phase.WAITING:
        return "waiting for its turn"
    step = f"step {act.step}" if act.step is not None else "starting"
    return f"{step}; trains past its first checkpoint before it is broken"


def _where(act: Act) -> str:
    step = f"after step {act.broken_step}" if act.broken_step is not None else ""
    now = f", now at step {act.step}" if act.step is not None and act.phase is not Phase.OVER else ""
    return f"{step}{now}"


def _mark(act: Act, wrong: tuple[str, ...] | None) -> str:
    if wrong is None:
        return act.phase.value
    return "came out wrong" if wrong else "as it should be"


def _colour(act: Act, wrong: tuple[str, ...] | None) -> str:
    if wrong is not None:
        return _BAD if wrong else _GOOD
    return _QUIET if act.phase in (Phase.WAITING, Phase.WARMING) else _NOW


def _foot(scene: Scene) -> Text:
    return Text.assemble(
        ("console  ", _QUIET), f"{scene.url}/", ("   token in  ", _QUIET), f"{scene.token_file}", overflow="fold"
    )


def opening(scene: Scene) -> RenderableType:
    """What is said before anything is broken: how to look in, and what is set differently here."""
    table = Table(title="Set shorter than the defaults, for this demonstration only", title_justify="left", box=None)
    for name in ("setting", "here", "default"):
        table.add_column(name, style="" if name == "setting" else "bold" if name == "here" else _QUIET)
    for item in settings.differences(at_once=scene.plan.at_once):
        table.add_row(item.name, item.here, item.usual)
    return Group(
        Text.assemble(("Console: ", "bold"), f"{scene.url}/  log in with the token in {scene.token_file}"),
        Text(
            f"{scene.person} has set stage act, and for partition {settings.PARTITION} consents to ending a running "
            "attempt that hangs."
        ),
        table,
        Text(),
    )


def ending(scene: Scene) -> RenderableType:
    """The last words: one line per fault, and whether all came out right."""
    table = Table(box=None, header_style=_QUIET, title="Seconds from each fault", title_justify="left")
    table.add_column("fault", ratio=3)
    for name in _LAST_COLUMNS:
        table.add_column(MILESTONE_WORDS[name], justify="right", no_wrap=True)
    table.add_column("advice", ratio=2)
    table.add_column("came out", no_wrap=True)
    for act in scene.acts:
        found = act.milestones
        figures = [f"{found[name]:.1f}" if name in found else "" for name in _LAST_COLUMNS]
        wrong = scene.problems.get(act.fault.name)
        good = wrong is not None and not wrong
        mark = Text("right", style=_GOOD) if good else Text("wrong", style=_BAD)
        table.add_row(act.fault.title, *figures, advice(act) or "nothing", mark)
    parts: list[RenderableType] = [table]
    for act in scene.acts:
        parts += [Text(f"{act.fault.title}: {sentence}", style=_BAD) for sentence in _wrong(act, scene)]
    parts.append(_last_line(scene))
    return Group(*parts)


def _wrong(act: Act, scene: Scene) -> tuple[str, ...]:
    return scene.problems.get(act.fault.name, ("it was not over",))


def _last_line(scene: Scene) -> Text:
    if scene.is_good:
        return Text(f"All came out right, in {scene.duration_s:.0f} s.", style=f"bold {_GOOD}")
    return Text(f"Something came out wrong. Logs and history: {scene.plan.folder}", style=f"bold {_BAD}")


def news(before: Scene | None, after: Scene) -> list[str]:
    """What happened between two scenes, one line each: for a terminal without a live display."""
    known = {act.fault.name: act for act in before.acts} if before is not None else {}
    lines: list[str] = []
    for act in after.acts:
        lines += [f"{after.duration_s:6.1f} s  {act.fault.job:12} {text}" for text in _news_of(known, act, after)]
    return lines


def _news_of(known: dict[FaultName, Act], act: Act, scene: Scene) -> Iterator[str]:
    old = known.get(act.fault.name)
    if old is None:
        return
    if act.phase is not old.phase and act.phase is Phase.WARMING and old.phase is Phase.WAITING:
        yield "submitted"
    if act.broken_at is not None and old.broken_at is None:
        yield f"{act.fault.done} ({_where(act).strip(', ')})"
    for name, value in sorted(act.milestones.items(), key=lambda item: item[1]):
        if name not in old.milestones:
            yield f"{MILESTONE_WORDS[name]} after {value:.1f} s"
    waits = act.newest is not None and act.newest.hold
    if verdict(act) and not waits and (verdict(act) != verdict(old) or not advice(old)):
        yield verdict(act)
    if advice(act) and advice(act) != advice(old):
        yield f"advice: {advice(act)}"
    if act.phase is Phase.OVER and old.phase is not Phase.OVER:
        wrong = scene.problems.get(act.fault.name, ())
        yield f"{outcome(act)}: {'; '.join(wrong) if wrong else 'as it should be'}"


def invitation(scene: Scene) -> RenderableType:
    """How to look around while everything is kept up."""
    state = scene.token_file.parent if scene.token_file is not None else ""
    return Group(
        Text("Everything is kept up. In another terminal:", style="bold"),
        Text(f"  export RELANCE_STATE_DIR={state}"),
        Text("  relance jobs    relance incidents    relance why llama-kill    relance nodes    relance history"),
        Text(f"  the console: {scene.url}/ with the token in {scene.token_file}"),
        Text("Ctrl-C here ends everything; a temporary folder goes with it."),
    )


def recording(width: int) -> Console:
    """A console that records what it shows, for a picture."""
    return Console(record=True, width=width, force_terminal=True, file=io.StringIO())
