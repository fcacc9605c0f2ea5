"""Fingerprints: the same for the same fault in another attempt, on other nodes, at another step (20.8)."""

from __future__ import annotations

import re

from relance.attribution.explanations import Explanation
from relance.domain.findings import RuleHit
from relance.domain.keys import stable_id
from relance.domain.verdicts import CaseFile

_FRAME = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen|<string>|/torch/|/bin/torchrun")
_ERROR = re.compile(r"(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning))\b.*")
_LABEL = re.compile(r"^\s*(?:\[?(?:rank)?\s*\d+\]?:\s*|\[[^\]]*\]:?\s*)+", re.IGNORECASE)

_VOLATILE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "UUID"),
        (r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?\b", "PCI"),
        (r"\b0x[0-9a-fA-F]+\b", "ADDRESS"),
        (r"(?:[\w.~-]*/)+([\w.-]+)", r"\1"),
        (r"\b\d{4}-\d{2}-\d{2}[T _]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?", "TIME"),
        (r"\d+(?:\.\d+)*(?:[eE][+-]?\d+)?", "N"),
        (r"\s+", " "),
    )
)
"""What changes from one attempt to the next, in the order in which it is taken out; of a path the last part stays."""


def fingerprint(explanation: Explanation, case: CaseFile) -> str:
    """A short hash of symptom, normalised text and top own-code frame."""
    first = explanation.first
    if first is None:
        return stable_id("fp", explanation.domain.value, explanation.cause)
    return stable_id("fp", explanation.cause, normalised(deciding_line(first.hit), case), own_frame(first.hit) or "")


def deciding_line(hit: RuleHit) -> str:
    """The line of a hit's excerpt that says what happened: the first that begins with an error's name, else the first.

    Of a chain of exceptions the first is the candidate (A047).
    """
    lines = [_LABEL.sub("", line).strip() for line in hit.excerpt.splitlines()]
    if "exception" in hit.captures and lines:
        return lines[-1]
    errors = [line for line in lines if _ERROR.match(line)]
    return next(iter(errors or filter(None, lines)), "")


def own_frame(hit: RuleHit) -> str | None:
    """The innermost frame of a traceback that lies in the job's own code, as `file:line in function`."""
    told = hit.captures.get("frame")
    if told:
        return told.rsplit("/", 1)[-1]
    frames = [
        f"{found['path'].rsplit('/', 1)[-1]}:{found['line']} in {found['function'] or '?'}"
        for found in _FRAME.finditer(hit.excerpt)
        if not _LIBRARY.search(found["path"])
    ]
    return frames[-1] if frames else None


def normalised(text: str, case: CaseFile) -> str:
    """Text without rank, node, device, time, number, address and path prefix."""
    text = _LABEL.sub("", text)
    for node in sorted((node for node in case.nodes if node in text), key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(node)}(?![\w])", "NODE", text)
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text.strip()[:400]
