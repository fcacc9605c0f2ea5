"""Comments in the form that users of another recovery engine have already. Read as wishes, with a site's leave. Pure.

`{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 2}}` asks that engine to put the job back into the queue.
Two engines on one job restart it twice, so until a site says that the other one is off, it means `observe` to us.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from relance.domain.stages import Stage

APS = "aps"
"""The name of the form in `accept_comment_forms`."""
COMMENT_FORMS = (APS,)
_MEANT = re.compile(r"\{\s*[\"']?APS\b")
_UNQUOTED = re.compile(r"[\s{}:,'\"A-Za-z0-9_-]*\Z", re.ASCII)
_WORD = re.compile(r"['\"]?([A-Za-z_][A-Za-z0-9_-]*)['\"]?", re.ASCII)
_CHAIN = "singleton_dependency"
_QUOTES = """#SBATCH --comment='{"APS": {"auto_resume_mode": "requeue"}}'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherForm:
    """What a comment in another form asks for: settings by our names, and what its owner has to be told.

    `broken` says why nothing of it counts but `observe`; empty: it can be understood.
    """

    form: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    broken: str = ""


def other_form(comment: str, accepted: Collection[str]) -> OtherForm | None:
    """What the comment asks for in a form of another engine; None where it is in none.

    `accepted` are the forms that the site takes for wishes of ours. Quotes that a shell took away may be missing.
    """
    text = comment.strip()
    data = _data(text) if text.startswith("{") else None
    asked = data.get("APS") if isinstance(data, dict) else None
    if _MEANT.match(text) is None and asked is None:
        return None
    if not isinstance(asked, dict):
        return OtherForm(form=APS, broken=f"the APS comment cannot be read as a whole; it needs quotes: {_QUOTES}")
    return _aps(asked, is_accepted=APS in accepted)


def _data(text: str) -> object:
    """The JSON of a text, or of one that lost its quotes on its way through a shell."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if _UNQUOTED.match(text) is None:
        return None
    try:
        return json.loads(_WORD.sub(r'"\1"', text))
    except (ValueError, RecursionError):
        return None


def _aps(asked: Mapping[str, Any], *, is_accepted: bool) -> OtherForm:
    mode, times = asked.get("auto_resume_mode"), asked.get("max_requeue_times")
    observe = {"mode": Stage.OBSERVE.value}
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 0):
        return OtherForm(form=APS, broken=f"max_requeue_times is {_shown(times)}, not a whole number from 0")
    if mode == _CHAIN:
        said = f"auto_resume_mode {_CHAIN} is not taken over: a job of a chain is observed, and its successor goes on"
        return OtherForm(form=APS, settings=observe, notes=(said,) if is_accepted else ())
    if mode != "requeue":
        return OtherForm(form=APS, broken=f"auto_resume_mode is {_shown(mode)}, not requeue")
    if not is_accepted:
        return OtherForm(form=APS, settings=observe)
    known = {"auto_resume_mode", "max_requeue_times"}
    notes = tuple(f"{_shown(name)} in the APS comment was ignored" for name in asked if name not in known)
    settings: dict[str, Any] = {"mode": Stage.ACT.value}
    if times is not None:
        settings["max_restarts"] = times
    return OtherForm(form=APS, settings=settings, notes=notes)


def _shown(value: object) -> str:
    """A piece of foreign input in a note: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - fits a line
