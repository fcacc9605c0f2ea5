"""All dialects that are known, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from relance.progress import shapes
from relance.progress.announcements import MARKS
from relance.progress.dialects import Dialect, Finder, Mark
from relance.progress.quick_steps import megatron_steps, titan_steps

LEARNED: Final = "learned"
"""The dialect of lines whose repetition alone says that they tell steps."""
OWN: Final = "own"
"""The dialect of a pattern of the site's or the job's own."""


def _shaped(name: str, *lines: shapes.Shape, kin: tuple[str, ...] | None, yields_to: str = "") -> Dialect:
    literals = tuple(shape.literal for shape in lines)
    find = lines[0].find if len(lines) == 1 else shapes.together(*lines)
    return Dialect(name=name, find_steps=find, literals=literals, kin=kin, yields_to=yields_to)


DIALECTS: Final = (
    _shaped("nemo", shapes.NEMO, kin=("nemo", "lightning", "megatron")),
    Dialect(name="megatron", find_steps=megatron_steps, literals=(b"iteration ",), kin=("megatron",)),
    Dialect(name="torchtitan", find_steps=titan_steps, literals=(b"step:",), kin=("torchtitan",)),
    _shaped("deepspeed", shapes.DEEPSPEED, shapes.DEEPSPEED_SPEED, kin=None, yields_to="megatron"),
    _shaped("maxtext", shapes.MAXTEXT, kin=("maxtext",)),
    _shaped("composer", shapes.COMPOSER, shapes.COMPOSER_DETAIL, kin=("composer", "deepspeed")),
    _shaped("composer-batches", shapes.COMPOSER_BATCH, shapes.COMPOSER_DETAIL, kin=("composer", "deepspeed")),
    _shaped("fairseq", shapes.FAIRSEQ, shapes.FAIRSEQ_SIMPLE, kin=("fairseq",)),
    _shaped("epochs", shapes.EPOCHS, kin=None),
    _shaped("transformers", shapes.BAR, shapes.TRAINER, kin=None),
    _shaped("generic", shapes.GENERIC, kin=None),
    _shaped("generic-loss-first", shapes.GENERIC_LOSS_FIRST, kin=None),
)
"""Every dialect; of those of no one framework (`kin` is None) any framework's plain marks count."""
_KIN: Final = {
    "deepspeed": ("deepspeed",),
    "epochs": ("lightning", "fairseq"),
    "transformers": ("transformers",),
}
"""Frameworks whose marks count all once these steps are known, beside the plain ones of any."""


def without_marks(name: str, find_steps: Finder) -> Dialect:
    """A dialect of steps of one's own; what any framework plainly announces counts beside them."""
    return Dialect(name=name, find_steps=find_steps, literals=(), kin=None)


def marks_of(dialect: Dialect | None) -> tuple[Mark, ...]:
    """The marks that count beside the steps of a dialect; None: none is known yet."""
    if dialect is not None and dialect.kin is not None:
        return _once(mark for name in dialect.kin for mark in MARKS[name])
    known = _KIN.get(dialect.name, ()) if dialect is not None else ()
    return _once(mark for name, marks in MARKS.items() for mark in marks if mark.is_plain or name in known)


def _once(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    return tuple(dict.fromkeys(marks))
