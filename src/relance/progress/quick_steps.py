"""Step lines of Megatron-LM and torchtitan, whose logs are the longest: found by plain searches for what is fixed.

The shapes are those of megatron/training/training.py and of torchtitan's components/metrics.py. Lines are matched from
their marks on, not from their beginnings, because ranks write into each other's lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from relance.progress.dialects import StepText, marked

_NUMBER = rb"([+-]?(?:[\d.,]+(?:[eE][+-]?\d+)?|nan|inf|NaN|Inf|infinity))"
_MOST_LINE_BYTES = 4096
_MEGATRON_STEP = re.compile(rb"iteration +(\d{1,12})/ *(\d{1,12}) +\|")
_MEGATRON_MS = re.compile(rb"elapsed time per iteration \(ms\): *" + _NUMBER)
_MEGATRON_RATE = re.compile(rb"throughput per GPU(?: \(TFLOP/s/GPU\))?: *" + _NUMBER)
_MEGATRON_LM_LOSS = re.compile(rb"lm loss: *" + _NUMBER)
_MEGATRON_LOSS = re.compile(rb"loss: *" + _NUMBER)
_MEGATRON_NORM = re.compile(rb"grad norm: *" + _NUMBER)
_TITAN_STEP = re.compile(rb"step: *([\d,]{1,15}) +loss: *" + _NUMBER + rb"(?: +grad_norm: *" + _NUMBER + rb")?")
_TITAN_RATE = re.compile(rb"[^\n]{0,120}?tps: *" + _NUMBER)


def megatron_steps(text: bytes) -> Iterator[tuple[int, StepText]]:
    """Step lines of Megatron-LM: ` [time] iteration 340/ 20000 | … | lm loss: 3.2E+00 | … |`."""
    found = list(marked(text, b"iteration ", _MEGATRON_STEP))
    afters = (*(match.start() for match in found[1:]), len(text))
    for match, after in zip(found, afters, strict=False):
        begin, end = match.span()
        line_end = text.find(b"\n", end, after)
        rest = text[end - 1 : min(after if line_end < 0 else line_end, end + _MOST_LINE_BYTES)]
        loss = _number_after(rest, b"lm loss:", _MEGATRON_LM_LOSS) or _number_after(rest, b"loss:", _MEGATRON_LOSS)
        norm = _number_after(rest, b"grad norm:", _MEGATRON_NORM)
        step_ms = _number_after(rest, b"elapsed time per iteration (ms):", _MEGATRON_MS)
        rate = _number_after(rest, b"throughput per GPU", _MEGATRON_RATE)
        yield begin, StepText(match[1], match[2], loss, norm, None, step_ms, rate, "TFLOP/s/GPU" if rate else "")


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
