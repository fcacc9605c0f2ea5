"""Step lines of Megatron-LM and torchtitan, whose logs are the longest: found by plain searches for what is fixed.

The shapes are those of megatron/training/training.py and of torchtitan's components/metrics.py. Lines are matched from
their marks on, not from their beginnings, because ranks write into each other's lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from relance.progress.dialects import StepText, marked

_NUMBER = rb"([+-]?(?:[\d.,]+(?:[eE][+-]?\d+)?|nan|inf|NaN|Inf|NAN|INF|infinity))"
_MOST_LINE_BYTES = 4096
_MEGATRON_STEP = re.compile(rb"iteration +(\d{1,12})/ *(\d{1,12}) +\|")
_MEGATRON_USUAL = re.compile(
    rb"iteration +(\d{1,12})/ *(\d{1,12}) \|(?: consumed samples: +\d+ \|)?(?: skipped samples: +\d+ \|)?"
    rb" elapsed time per iteration \(ms\): ([\d.]+) \|"
    rb"(?: throughput per GPU \(TFLOP/s/GPU\): ([\d.]+) \|)?"
    rb"(?: learning rate: [\d.E+-]+ \|)?(?: global batch size: +\d+ \|)?"
    rb" lm loss: ([\d.E+-]+) \|(?: loss scale: [\d.]+ \|)? grad norm: ([\d.]+) \|"
)
"""The line as it mostly is, in one go; what it does not match is taken apart piece by piece."""
_MARK = b"iteration "
_MARKS_OF_ONE = 2
"""A line of one step has the mark twice: at its number, and before `(ms)`."""
_MEGATRON_MS = re.compile(rb"elapsed time per iteration \(ms\): *" + _NUMBER)
_MEGATRON_RATE = re.compile(rb"throughput per GPU(?: \(TFLOP/s/GPU\))?: *" + _NUMBER)
_MEGATRON_LM_LOSS = re.compile(rb"lm loss: *" + _NUMBER)
_MEGATRON_LOSS = re.compile(rb"loss: *" + _NUMBER)
_MEGATRON_NORM = re.compile(rb"grad norm: *" + _NUMBER)
_TITAN_STEP = re.compile(rb"step: *([\d,]{1,15}) +loss: *" + _NUMBER + rb"(?: +grad_norm: *" + _NUMBER + rb")?")
_TITAN_RATE = re.compile(rb"[^\n]{0,120}?tps: *" + _NUMBER)


def megatron_steps(text: bytes) -> Iterator[tuple[int, StepText]]:
    """Step lines of Megatron-LM: ` [time] iteration 340/ 20000 | … | lm loss: 3.2E+00 | … |`."""
    position = text.find(_MARK)
    while position >= 0:
        usual = _MEGATRON_USUAL.match(text, position)
        if usual is not None and text.count(_MARK, position, usual.end()) == _MARKS_OF_ONE:
            step, total, step_ms, rate, loss, norm = usual.groups()
            unit = "TFLOP/s/GPU" if rate else ""
            yield position, StepText(step, total, loss, norm, None, step_ms, rate, unit)
            position = text.find(_MARK, usual.end())
            continue
        match = _MEGATRON_STEP.match(text, position)
        if match is not None:
            yield position, _megatron_step(text, match)
        position = text.find(_MARK, match.end() if match else position + len(_MARK))


def _megatron_step(text: bytes, match: re.Match[bytes]) -> StepText:
    """A step by what stands up to the end of its line, or up to where another rank's step begins in it."""
    end = match.end()
    line_end = text.find(b"\n", end, end + _MOST_LINE_BYTES)
    line_end = min(len(text), end + _MOST_LINE_BYTES) if line_end < 0 else line_end
    other = _MEGATRON_STEP.search(text, end, line_end)
    rest = text[end - 1 : line_end if other is None else other.start()]
    loss = _number_after(rest, b"lm loss:", _MEGATRON_LM_LOSS) or _number_after(rest, b"loss:", _MEGATRON_LOSS)
    norm = _number_after(rest, b"grad norm:", _MEGATRON_NORM)
    step_ms = _number_after(rest, b"elapsed time per iteration (ms):", _MEGATRON_MS)
    rate = _number_after(rest, b"throughput per GPU", _MEGATRON_RATE)
    return StepText(match[1], match[2], loss, norm, None, step_ms, rate, "TFLOP/s/GPU" if rate else "")


def _number_after(text: bytes, label: bytes, pattern: re.Pattern[bytes]) -> bytes | None:
    """The number after a label. A plain search for the label is several times as fast as the pattern's own."""
    begin = text.find(label)
    if begin < 0:
        return None
    found = pattern.match(text, begin) or pattern.search(text, begin + 1)
    return None if found is None else found[1]


def titan_steps(text: bytes) -> Iterator[tuple[int, StepText]]:
    """Step lines of torchtitan: `[titan] time - root - INFO - step: 20  loss: 6.8  grad_norm: 1.9  …`."""
    for match in marked(text, b"step:", _TITAN_STEP):
        if text[max(0, match.start() - 9) : match.start()] != b"validate ":
            rate = _TITAN_RATE.match(text, match.end())
            told = None if rate is None else rate[1]
            yield (
                match.start(),
                StepText(match[1], None, match[2], match[3], None, None, told, "tokens/s/GPU" if told else ""),
            )
