"""Reads blocks of a log into marks of progress: steps, checkpoints, phases, in the order of the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo
from operator import itemgetter

from relance.domain.log_texts import LogText, line_start
from relance.domain.observations import LogBlock
from relance.domain.progress import ProgressMark
from relance.domain.replacing import replace
from relance.progress.dialects import StepText
from relance.progress.folding import NOTHING_CARRIED, Carried, Fold
from relance.progress.frameworks import DIALECTS, LEARNED, OWN, marks_of, without_marks
from relance.progress.learning import NOTHING_LEARNED, Learning, learn, learned_steps
from relance.progress.marks import LineFinders, MarkFinder, MarkText
from relance.progress.own_patterns import OwnPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """What reading carries from block to block, for all files of an attempt.

    `dialect` is the one whose steps were recognised first. `step` is the step of the last mark, if that was a step:
    other ranks say it again. `loading_step` and `loading_path` are of a load that was announced, `loaded` says that one
    was done.
    """

    version: int = 1
    dialect: str | None = None
    step: int | None = None
    loading_step: int | None = None
    loading_path: str | None = None
    loaded: bool = False
    counted: int = 0
    """Reports of steps that bear no number, so far."""
    carried: Carried = NOTHING_CARRIED
    """What else marks need to know of those before them."""
    learning: Learning = NOTHING_LEARNED
    """Lines that may turn out to tell steps, while no dialect is known."""

    @property
    def learned(self) -> str | None:
        """What a line looks like whose steps were learned, with `N` for its numbers; None: none are."""
        shape = self.learning.shape
        return shape.example if shape is not None and self.dialect == LEARNED else None

    @property
    def learned_note(self) -> str:
        """Words that say that the steps were learned; empty: they were not."""
        if self.learned is None:
            return ""
        return f"steps are learned from lines like `{self.learned}`; a step pattern of your own makes it certain"


class ProgressReader:
    """Reads marks of progress out of blocks.

    Args:
        own: A step pattern of the site or the job; with it the steps of no other dialect are read.
        zone: The zone of times that bear none.
        finders: Makes what finds the lines of marks; None: RE2 alone.

    Raises:
        PatternError: The pattern cannot be used.
    """

    def __init__(self, own: str | None = None, *, zone: tzinfo = UTC, finders: LineFinders | None = None) -> None:
        self._zone = zone
        self._own = None if own is None else OwnPattern(own)
        self._dialects = DIALECTS if self._own is None else (without_marks(OWN, self._own.find),)
        self._named = {dialect.name: dialect for dialect in self._dialects}
        self._finders = finders
        self._marks: dict[str | None, MarkFinder] = {}

    def read(
        self, block: LogBlock, state: ReaderState, log: LogText | None = None
    ) -> tuple[ReaderState, tuple[ProgressMark, ...]]:
        """The marks of a block, in the order of the bytes. A step that is told again at once is told once.

        `log` is the text of the block, cleaned already.
        """
        log = log or LogText(block.data)
        new_from = len(LogText(block.data[: block.overlap]).text) if block.overlap else 0
        state, steps = self._find_steps(block, log.text, new_from, state)
        others = list(self._marks_of(state.dialect).find(log.text))
        if self._own is not None:
            others += self._own.find_marks(log.text)
        found: list[tuple[int, StepText | MarkText]] = [*steps, *others]
        if others:
            found.sort(key=itemgetter(0))
        fold = Fold(block, log, self._zone, is_learned=state.dialect == LEARNED)
        fold.resume(state.carried, state.step, state.counted)
        fold.load(state.loading_step, state.loading_path, loaded=state.loaded)
        for position, told in found:
            if position >= new_from:
                if isinstance(told, StepText):
                    fold.take_step(position, told)
                else:
                    fold.take_mark(position, told)
        state = replace(
            state,
            step=fold.last,
            counted=fold.counted,
            loading_step=fold.loading_step,
            loading_path=fold.loading_path,
            loaded=fold.loaded,
            carried=fold.carried(),
        )
        return state, tuple(fold.marks)

    def _marks_of(self, name: str | None) -> MarkFinder:
        """What finds the marks that count beside the steps of a dialect."""
        if name not in self._marks:
            dialect = self._named.get(name or "")
            self._marks[name] = MarkFinder(marks_of(dialect), self._finders)
        return self._marks[name]

    def _find_steps(
        self, block: LogBlock, text: bytes, new_from: int, state: ReaderState
    ) -> tuple[ReaderState, list[tuple[int, StepText]]]:
        """The steps of the known dialect, else of the one whose first step comes first, else of learned lines."""
        known = self._named.get(state.dialect or "")
        if known is not None:
            better = self._named.get(known.yields_to)
            if better is not None and (steps := list(better.find_steps(text))):
                return replace(state, dialect=better.name), steps
            return state, list(known.find_steps(text))
        results = [(dialect.name, list(dialect.find_steps(text))) for dialect in self._dialects]
        with_steps = [(line_start(text, steps[0][0]), name, steps) for name, steps in results if steps]
        if with_steps:
            _, name, steps = min(with_steps, key=itemgetter(0))  # of the same line the one that is asked first
            found = {each: told for _, each, told in with_steps}
            richer = self._named[name].yields_to
            name, steps = (richer, found[richer]) if richer in found else (name, steps)
            return replace(state, dialect=name, learning=NOTHING_LEARNED), steps
        if self._own is not None:
            return state, []
        learning, steps = state.learning, []
        if learning.shape is not None:
            steps = list(learned_steps(learning.shape, text))
        if steps:
            return replace(state, learning=learning.seen()), steps
        learning = learn(learning, text[new_from:], block.read_at)
        if learning.shape is not None and learning.shape is not state.learning.shape:
            return replace(state, dialect=LEARNED, learning=learning), list(learned_steps(learning.shape, text))
        return replace(state, learning=learning), []
