"""Shapes of step lines: a literal that each has, a pattern, and what else stands on the line.

The shapes are those of the frameworks' sources: DeepSpeed's utils/logging.py and utils/timer.py, NeMo's
progress_printer.py, MaxText's metric_logger.py, Lightning's, tqdm's and torchvision's progress bars, Composer's
console_logger.py, fairseq's JSON logger, and the dictionaries of the Hugging Face Trainer, which bear no number. Last
comes what most scripts of one's own print: a step and a loss on one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from relance.progress.dialects import SAME, Finder, StepText

_MOST_LINE_BYTES = 4096
_BEFORE_BYTES = 60
_NUMBER = rb"[\"']?([+-]?(?:\d[\d.,]*(?:[eE][+-]?\d+)?|nan|inf|NaN|Inf|NAN|INF))"
HELD_OUT = re.compile(
    rb"(?i:\b(?:val|valid\w*|eval\w*|test(?:ing)?|dev)\b|\b(?:resum|(?:re)?load|restore|restoring|save|saving|checkpoint))"
)
"""Words before a step that make it one of data held out, or of a checkpoint."""
_TRAINING_LOSS = (
    rb"\b(?:(?!(?:val|valid|validation|eval|test|dev)[ _])[a-z]+[ _])?"
    rb"(?<!val )(?<!valid )(?<!validation )(?<!eval )(?<!test )(?<!dev )[Ll]oss"
)
"""A loss by its name, unless that is of data held out."""


def _after(label: bytes) -> re.Pattern[bytes]:
    return re.compile(label + _NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A literal that is on every such line, and the pattern of what makes it one.

    Its groups are as in `StepText`, and `epoch`: then the steps of the epochs before are added, which are as many as
    `total`; `first_epoch` is what counting begins with. `extras` are what else is looked for: after the match, or where
    `is_whole` on the whole line. The unit of a throughput is that of the first of `rates` which is there.
    """

    literal: bytes
    pattern: re.Pattern[bytes]
    extras: dict[str, re.Pattern[bytes]] = field(default_factory=dict)
    rates: dict[str, re.Pattern[bytes]] = field(default_factory=dict)
    first_epoch: int = 0
    is_whole: bool = False
    step: bytes = b""
    """What stands for the number where the pattern has no group for it."""
    is_bar: bool = False
    is_more: bool = False

    def find(self, text: bytes) -> Iterator[tuple[int, StepText]]:
        """The steps of a text, one of each line at most."""
        position = text.find(self.literal)
        while position >= 0:
            begin, end = text.rfind(b"\n", 0, position) + 1, text.find(b"\n", position)
            end = len(text) if end < 0 else end
            most = min(end, begin + _MOST_LINE_BYTES)
            match = self.pattern.search(text, begin, most)
            if match is not None and not HELD_OUT.search(
                text, max(begin, match.start() - _BEFORE_BYTES), match.start()
            ):
                yield match.start(), self._told(match, text, begin if self.is_whole else match.start(), most)
            position = text.find(self.literal, end)

    def _told(self, match: re.Match[bytes], text: bytes, begin: int, end: int) -> StepText:
        values = {name: value for name, value in match.groupdict().items() if value}
        epoch = values.pop("epoch", None)
        if epoch is not None and "step" in values and "total" in values:
            before = max(0, int(epoch) - self.first_epoch) * int(values.pop("total"))
            values["step"] = b"%d" % (before + int(values["step"]))
        for name, pattern in self.extras.items():
            if found := pattern.search(text, begin, end):
                values[name] = found[1]
        rate, unit = next(
            (
                (found[found.lastindex or 0], unit)
                for unit, pattern in self.rates.items()
                if (found := pattern.search(text, begin, end))
            ),
            (None, ""),
        )
        return StepText(
            step=values.get("step", self.step),
            total=values.get("total"),
            loss=values.get("loss"),
            grad_norm=values.get("grad_norm"),
            step_time_s=values.get("step_time_s"),
            step_time_ms=values.get("step_time_ms"),
            throughput=rate,
            unit=unit,
            per_s=values.get("per_s"),
            is_bar=self.is_bar,
            is_more=self.is_more,
        )


def together(*shapes: Shape) -> Finder:
    """Finds lines of several shapes."""

    def find(text: bytes) -> Iterator[tuple[int, StepText]]:
        yield from sorted((each for shape in shapes for each in shape.find(text)), key=itemgetter(0))

    return find


_BAR_EXTRAS = {
    "step_time_s": re.compile(rb", +(\d[\d.]*)s/(?:it|ba(?:tch)?|steps?)\b"),
    "per_s": re.compile(rb", +(\d[\d.]*)(?:it|ba(?:tch)?|steps?)/s\b"),
    "loss": _after(rb"\b(?:train_|training_)?loss(?:_step)?[=:] *"),
    "grad_norm": _after(rb"\bg(?:rad_?)?norm=*"),
}
DEEPSPEED = Shape(literal=b", skipped=", pattern=re.compile(rb"\bstep=(?P<step>\d{1,12}), skipped=\d+"))
DEEPSPEED_SPEED = Shape(
    literal=b", RunningAvgSamplesPerSec=",
    pattern=re.compile(rb"(?:\bglobal_step=|\b\d+/)(?P<step>\d{1,12}), RunningAvgSamplesPerSec="),
    rates={"samples/s": _after(rb"CurrSamplesPerSec=")},
    is_more=True,
)
NEMO = Shape(
    literal=b"global_step: ",
    pattern=re.compile(rb"global_step: *(?P<step>\d{1,12}) \|"),
    extras={
        "loss": _after(rb"reduced_train_loss: *"),
        "grad_norm": _after(rb"grad_norm: *"),
        "step_time_s": _after(rb"train_step_timing in s: *"),
    },
    rates={
        "tokens/s/GPU": _after(rb"tokens_per_sec_per_gpu: *"),
        "TFLOP/s/GPU": _after(rb"TFLOPS_per_GPU: *"),
    },
)
MAXTEXT = Shape(
    literal=b"completed step: ",
    pattern=re.compile(rb"completed step: (?P<step>\d{1,12}), seconds: (?P<step_time_s>[\d.]{1,20})"),
    extras={"loss": _after(rb"\bloss: *"), "grad_norm": _after(rb"\bgrad_norm: *")},
    rates={"tokens/s/device": _after(rb"Tokens/s/device: *"), "TFLOP/s/device": _after(rb"TFLOP/s/device: *")},
)
COMPOSER = Shape(
    literal=b"[batch=",
    pattern=re.compile(rb"(?:\[epoch=(?P<epoch>\d{1,9})\])?\[batch=(?P<step>\d{1,12})/(?P<total>\d{1,12})\]"),
    first_epoch=1,
)
COMPOSER_DETAIL = Shape(
    literal=b"Train ",
    pattern=re.compile(
        rb"^[ \t]+(?:\S{1,40}: +)?Train (?=(?:loss/train/total|throughput/\w+_per_sec): )", re.MULTILINE
    ),
    extras={"loss": _after(rb"loss/train/total: "), "per_s": _after(rb"throughput/batches_per_sec: ")},
    rates={
        "tokens/s": _after(rb"throughput/tokens_per_sec: "),
        "samples/s": _after(rb"throughput/samples_per_sec: "),
    },
    step=SAME,
)
COMPOSER_BATCH = Shape(literal=b"Train time/batch: ", pattern=re.compile(rb"Train time/batch: (?P<step>\d{1,12})\b"))
FAIRSEQ = Shape(
    literal=b'"num_updates": "',
    pattern=re.compile(rb'"num_updates": "(?P<step>\d{1,12})"'),
    extras={"loss": _after(rb'"loss": '), "grad_norm": _after(rb'"gnorm": '), "per_s": _after(rb'"ups": ')},
    rates={"words/s": _after(rb'"wps": ')},
    is_whole=True,
)
FAIRSEQ_SIMPLE = Shape(
    literal=b", num_updates=",
    pattern=re.compile(rb", num_updates=(?P<step>\d{1,12})\b"),
    extras={"loss": _after(rb"\bloss="), "grad_norm": _after(rb", gnorm="), "per_s": _after(rb", ups=")},
    rates={"words/s": _after(rb", wps=")},
    is_whole=True,
)
EPOCHS = Shape(
    literal=b"poch",
    pattern=re.compile(
        rb"[Ee]poch:? ?\[?(?P<epoch>\d{1,6})(?:/\d+)?\]?:?"
        rb"(?:[ ,]+\[ *| +\d{1,3}%\|[^|\n]{0,80}\| *|[ ,]+(?:batch|step|iter)[ :=]+|:? {2,6})"
        rb"(?P<step>\d{1,9}) ?/ ?(?P<total>\d{1,9})\b(?! \[00:00<\?)"
    ),
    extras={
        **_BAR_EXTRAS,
        "step_time_s": re.compile(rb"(?:, +(?=[\d.]+s/(?:it|ba(?:tch)?|steps?)\b)|  time: )(\d[\d.]*)"),
    },
    rates={"words/s": _after(rb"\bwps=")},
)
BAR = Shape(
    literal=b"%|",
    pattern=re.compile(
        rb"(?:^ {0,5}(?:\d{1,6}: )?|\]:? ?|(?:INFO|WARNING): )"
        rb"(?P<name>(?:Steps|Train|Training|Iteration)s?:? +)? {0,3}\d{1,3}%\|[^|\n]{0,100}\| *"
        rb"(?P<step>\d{1,12})/(?P<total>\d{2,12}) \[[\d:]{4,12}<\d[\d:]{0,11}",
        re.MULTILINE,
    ),
    extras=_BAR_EXTRAS,
    is_bar=True,
)
TRAINER = Shape(
    literal=b"{'loss': ",
    pattern=re.compile(rb"\{'loss': (?=" + _NUMBER + rb")"),
    extras={"loss": _after(rb"'loss': "), "grad_norm": _after(rb"'grad_norm': ")},
)
_OWN_EXTRAS = {
    "grad_norm": _after(rb"\b(?:[Gg]rad(?:ient)?[ _]?norm|g_?norm|norm)[ =:]{1,3}"),
    "step_time_ms": re.compile(rb"\b(?:step[ _])?(?:time|dt)[ =:]{1,3}(\d[\d.]*) ?ms\b"),
    "step_time_s": re.compile(rb"\b(?:step[ _]time|dt)[ =:]{1,3}(\d[\d.]*) ?s\b"),
}
_OWN_RATES = {
    "tokens/s": re.compile(
        rb"\btok(?:en)?s?[_/](?:per_)?s(?:ec(?:ond)?)?[ =:]{1,3}(\d[\d.,]*)"
        rb"|(?<![\w.])(\d[\d.,]*) ?tok(?:en)?s?/s(?:ec)?\b"
    ),
    "samples/s": re.compile(rb"\bsamples[_/](?:per_)?s(?:ec(?:ond)?)?[ =:]{1,3}(\d[\d.,]*)"),
}
GENERIC = Shape(
    literal=b"oss",
    pattern=re.compile(
        rb"\b(?:global_|train_)?(?:step|iter|iteration)s?[ =:#]{1,4}\[?(?P<step>\d{1,12})\b"
        rb"(?: ?(?:/|of) ?(?P<total>\d{1,12}))?"
        rb"[^\n]{0,120}?" + _TRAINING_LOSS + rb"[ =:]{1,3}" + _NUMBER.replace(rb"([+-]", rb"(?P<loss>[+-]")
    ),
    extras=_OWN_EXTRAS,
    rates=_OWN_RATES,
)
GENERIC_LOSS_FIRST = Shape(
    literal=b"step",
    pattern=re.compile(
        rb"\bloss[ =:]{1,3}"
        + _NUMBER.replace(rb"([+-]", rb"(?P<loss>[+-]")
        + rb"[^\n]{0,80}?\bstep[ =:]{1,3}(?P<step>\d{1,12})\b"
    ),
    extras=_OWN_EXTRAS,
    rates=_OWN_RATES,
)
