"""A performance: the play, and how it is told while it goes on and at its end."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live

from relance.cli.demos import screens
from relance.cli.demos.plays import Plan, Play, Scene
from relance.cli.demos.results import result
from relance.ports.clocks import SystemClock

_PICTURE_COLUMNS = 132
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_REFRESH_PER_S = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """How it is told."""

    is_live: bool
    as_json: bool
    keep_running: bool
    picture: Path | None


def perform(plan: Plan, telling: Telling, pause: Callable[[float], None]) -> bool:
    """Play, tell, and say whether all came out right. Everything that was started is ended.

    Raises PlayFailedError when the play could not go on, and KeyboardInterrupt.
    """
    console = Console(stderr=telling.as_json, highlight=False)
    show = _Live(console) if telling.is_live else _Lines(console)
    play = Play(plan, SystemClock(), show, pause)
    with play.on_stage() as scene:
        console.print(screens.opening(scene))
        with show:
            last = play.perform(scene)
        _tell_end(last, telling, console)
        if telling.keep_running:
            _wait(last, console, pause)
    return last.is_good


def _tell_end(scene: Scene, telling: Telling, console: Console) -> None:
    if telling.picture is not None:
        telling.picture.write_text(_picture(scene), encoding="utf-8")
    console.print(screens.ending(scene))
    if telling.as_json:
        sys.stdout.write(json.dumps(result(scene), indent=2) + "\n")
        sys.stdout.flush()


def _picture(scene: Scene) -> str:
    """The last screen as SVG, without the fonts that it would fetch from a server of others."""
    recorder = screens.recording(_PICTURE_COLUMNS)
    recorder.print(screens.screen(scene))
    recorder.print(screens.ending(scene))
    drawn = recorder.export_svg(title="relance demo")
    return _FONTS.sub("", drawn).replace("Fira Code,", "").replace("Fira Code", "monospace")


def _wait(scene: Scene, console: Console, pause: Callable[[float], None]) -> None:
    """Keep everything up until Ctrl-C."""
    console.print(screens.invitation(scene))
    try:
        while True:
            pause(1.0)
    except KeyboardInterrupt:
        console.print("Ending everything.")


class _Live:
    """A live display that is drawn anew with each scene."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=_REFRESH_PER_S, vertical_overflow="crop")

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, scene: Scene) -> None:
        self._live.update(screens.screen(scene, self._live.console.size.height))


class _Lines:
    """One line for each thing that happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._before: Scene | None = None

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""

    def __call__(self, scene: Scene) -> None:
        for line in screens.news(self._before, scene):
            self._console.print(line, markup=False, soft_wrap=True)
        self._before = scene
