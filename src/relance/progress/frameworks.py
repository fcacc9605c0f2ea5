"""Dialects of further frameworks: how their step lines look, by one pattern each.

The shapes are those of their sources: DeepSpeed's utils/logging.py, NeMo's progress_printer.py, MaxText's
metric_logger.py, Lightning's and torchvision's progress bars, Composer's console_logger.py, fairseq's JSON logger, and
the dictionaries of the Hugging Face Trainer, which bear no number: these steps are counted. Last comes what most
scripts of one's own print: a step and a loss on one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from relance.progress.dialects import Dialect, Finder, StepText, without_marks

_NUMBER = rb"'?([+-]?(?:\d[\d.,]*(?:[eE][+-]?\d+)?|nan|inf|NaN|Inf))"
_HELD_OUT = re.compile(
    rb"(?i:\b(?:val|valid\w*|eval\w*|test(?:ing)?|dev)\b|\b(?:resum|(?:re)?load|restore|restoring|save|saving|checkpoint))"
)
_TRAINING_LOSS = (
    rb"\b(?:(?!(?:val|valid|validation|eval|test|dev)[ _])[a-z]+[ _])?"
    rb"(?<!val )(?<!valid )(?<!validation )(?<!eval )(?<!test )(?<!dev )[Ll]oss"
)
"""A loss by its name, unless that is of data held out."""
_BEFORE_BYTES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """A literal that is on every such line, and the pattern of the line; groups as in `StepText`, and `epoch`."""

    literal: bytes
    pattern: re.Pattern[bytes]


_SHAPES: dict[str, _Shape] = {
    "deepspeed": _Shape(literal=b", skipped=", pattern=re.compile(rb"\bstep=(?P<step>\d{1,12}), skipped=\d+")),
    "nemo": _Shape(
        literal=b"global_step: ",
        pattern=re.compile(
            rb"global_step: *(?P<step>\d{1,12}) \|(?:[^\n]{0,80}?reduced_train_loss: *" + _NUMBER + rb")?"
        ),
    ),
    "maxtext": _Shape(
        literal=b"completed step: ",
        pattern=re.compile(
            rb"completed step: (?P<step>\d{1,12}), seconds: (?P<step_time_s>[\d.]{1,20})"
            rb"(?:[^\n]{0,200}?\bloss: *" + _NUMBER + rb")?"
        ),
    ),
    "composer": _Shape(
        literal=b"[batch=", pattern=re.compile(rb"(?:\[epoch=\d+\])?\[batch=(?P<step>\d{1,12})/(?P<total>\d{1,12})\]")
    ),
    "fairseq": _Shape(literal=b'"num_updates": "', pattern=re.compile(rb'"num_updates": "(?P<step>\d{1,12})"')),
    "epochs": _Shape(
        literal=b"poch",
        pattern=re.compile(
            rb"[Ee]poch:? ?\[?(?P<epoch>\d{1,6})(?:/\d+)?\]?:?"
            rb"(?:[ ,]+\[ *| +\d{1,3}%\|[^|\n]{0,80}\| *|[ ,]+(?:batch|step|iter)[ :=]+|:? {2,6})"
            rb"(?P<step>\d{1,9}) ?/ ?(?P<total>\d{1,9})\b"
        ),
    ),
    "bar": _Shape(
        literal=b"%|",
        pattern=re.compile(
            rb"(?:^ {0,5}(?:\d{1,6}: )?|\]:? ?|(?:INFO|WARNING): )"
            rb"(?:(?:Steps|Train|Training|Iteration)s?:? +)? {0,3}\d{1,3}%\|[^|\n]{0,100}\| *"
            rb"(?P<step>\d{1,12})/(?P<total>\d{2,12}) \[[\d:]{4,12}<[\d:?]{1,12}",
            re.MULTILINE,
        ),
    ),
    "transformers": _Shape(
        literal=b"{'loss': ",
        pattern=re.compile(
            rb"\{'loss': " + _NUMBER + rb"'?, (?:'grad_norm': '?(?P<grad_norm>[\d.e+-]{1,24}|nan|inf))?"
        ),
    ),
    "generic": _Shape(
        literal=b"oss",
        pattern=re.compile(
            rb"\b(?:global_|train_)?(?:step|iter|iteration)s?[ =:#]{1,4}\[?(?P<step>\d{1,12})\b"
            rb"(?: ?(?:/|of) ?(?P<total>\d{1,12}))?"
            rb"[^\n]{0,120}?" + _TRAINING_LOSS + rb"[ =:]{1,3}" + _NUMBER
        ),
    ),
    "generic-loss-first": _Shape(
        literal=b"step",
        pattern=re.compile(rb"\bloss[ =:]{1,3}" + _NUMBER + rb"[^\n]{0,80}?\bstep[ =:]{1,3}(?P<step>\d{1,12})\b"),
    ),
}


def _finder(shape: _Shape) -> Finder:
    def find(text: bytes) -> Iterator[tuple[int, StepText]]:
        position = text.find(shape.literal)
        while position >= 0:
            begin, end = text.rfind(b"\n", 0, position) + 1, text.find(b"\n", position)
            end = len(text) if end < 0 else end
            match = shape.pattern.search(text, begin, min(end, begin + 4096))
            if match is not None and not _HELD_OUT.search(
                text, max(begin, match.start() - _BEFORE_BYTES), match.start()
            ):
                yield match.start(), _told(match)
            position = text.find(shape.literal, end)

    return find


def _told(match: re.Match[bytes]) -> StepText:
    named = match.groupdict()
    step, total = named.get("step"), named.get("total")
    epoch = named.get("epoch")
    if epoch is not None and step is not None and total is not None:
        step, total = b"%d" % (int(epoch) * int(total) + int(step)), None
    numbers = [value for at, value in enumerate(match.groups(), 1) if at not in match.re.groupindex.values() and value]
    return StepText(
        step=step or b"",
        total=total,
        loss=numbers[0] if numbers else None,
        grad_norm=named.get("grad_norm"),
        step_time_s=named.get("step_time_s"),
    )


FRAMEWORKS: tuple[Dialect, ...] = tuple(without_marks(name, _finder(shape)) for name, shape in _SHAPES.items())
