"""Wishes: what a job asks for in its own settings. Read from its comment, checked, clipped by the site's limits. Pure.

The comment is other people's input. It is either JSON, `{"relance": {"mode": "act", "max_restarts": 8, ...}}`, where
other keys of the same object are left alone, or the short form `relance:act,restarts=4,hang=900`. The same settings can
stand in a file of the job's owner; what the comment says goes before it. A comment in the form of another engine is
read as `relance.domain.comment_forms` says.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from relance.domain.comment_forms import OtherForm, other_form
from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.domain.views import Wish

MAX_COMMENT_CHARS = 4096
"""A longer comment is not read: it has no reason to be so long."""
MAX_LOGS = 16
"""Design 12: a job may name 16 globs without `**`."""
MAX_PATH_CHARS = 1024
MAX_WORKFLOW_CHARS = 128
MAX_PATTERN_CHARS = 512
MAX_HANG_AFTER_S = 7 * 86400.0

_SHORT = re.compile(r"(?:^|\s)relance:(\S*)")
_MEANT_FOR_US = re.compile(r"\{\s*[\"']?relance\b|\brelance[\"']?\s*[:=]|\brelance\s+off\b", re.IGNORECASE)
_SHORT_NAMES: Mapping[str, str] = {"restarts": "max_restarts", "hang": "hang_after_s", "workflow": "workflow"}
_ARM = "arm_requeue"
"""Counts in the job's own comment alone: it changes the job before anything is wrong with it."""
_QUOTING = "a comment in a batch script needs quotes: #SBATCH --comment='{\"relance\": {...}}'"


class _BrokenError(ValueError):
    """A setting cannot be understood; the text says which and how."""


def parse_wish(comment: str, limits: Limits, forms: Collection[str] = ()) -> Wish:
    """The wish in a job's comment; an empty one when the comment does not speak to us.

    `forms` are those of other engines that the site takes for wishes. Never raises. A setting that cannot be understood
    leaves the job in `observe`, whatever else it asks for, with a note; a value beyond the site's limits is clipped, an
    unknown setting ignored, each with a note.
    """
    if len(comment) > MAX_COMMENT_CHARS:
        if "relance" not in comment:
            return Wish()
        return _broken(f"the comment has more than {MAX_COMMENT_CHARS} characters and was not read")
    try:
        settings = _settings(comment)
    except _BrokenError as error:
        return _broken(str(error))
    if settings is not None:
        return _alone(_wish(settings, limits), comment, forms)
    other = other_form(comment, forms)
    return Wish() if other is None else _other_wish(other, limits)


def join_wishes(
    comment: str, in_file: Mapping[str, Any] | str | None, limits: Limits, forms: Collection[str] = ()
) -> Wish:
    """The wish in a job's comment and in its owner's file, setting by setting: the comment goes before the file.

    `in_file` is what the file holds, by name and below `relance` if the file has that; None: there is no such file; a
    text says why it could not be read, which leaves the job in `observe` with that note. Never raises.
    """
    own = _own_settings(comment)
    if in_file is None or own is None or (not own and other_form(comment, forms) is not None):
        # What is wrong with the comment is told by its own parser; and whoever asks another engine in the comment has
        # said there all that counts.
        return parse_wish(comment, limits, forms)
    try:
        found = _file_settings(in_file)
    except _BrokenError as error:
        wish = lowered(_wish(own, limits))
        return replace(wish, notes=(*wish.notes, f"{error}; so the job stays in observe"))
    if _ARM not in found:
        return _alone(_wish({**found, **own}, limits), comment, forms)
    joined = _wish({**{name: value for name, value in found.items() if name != _ARM}, **own}, limits)
    joined = replace(joined, notes=(*joined.notes, f"{_ARM} counts in the job's own comment only, not in a file"))
    return _alone(joined, comment, forms)


def lowered(wish: Wish) -> Wish:
    """The wish of a job that may not all be known: nothing above `observe`, and `off` where it asks for that."""
    return wish if wish.mode is Stage.OFF else replace(wish, mode=Stage.OBSERVE)


def _alone(wish: Wish, comment: str, forms: Collection[str]) -> Wish:
    """The wish, at `observe` where the same comment has another engine restart the job: two would both do it."""
    other = other_form(comment, forms)
    if other is None or other.broken or other.form in forms or wish.mode in (None, Stage.OFF, Stage.OBSERVE):
        return wish
    said = f"the comment asks another engine ({other.form.upper()}) too, so the job stays in observe"
    return replace(lowered(wish), notes=(*wish.notes, said))


def _own_settings(comment: str) -> dict[str, Any] | None:
    """The settings in a comment, empty where it does not speak to us; None where it is broken."""
    if len(comment) > MAX_COMMENT_CHARS:
        return None if "relance" in comment else {}
    try:
        return _settings(comment) or {}
    except _BrokenError:
        return None


def _file_settings(in_file: Mapping[str, Any] | str) -> Mapping[str, Any]:
    if isinstance(in_file, str):
        raise _BrokenError(in_file)
    settings = in_file.get("relance", in_file)
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise _BrokenError("the file does not hold settings by name")
    return settings


def _settings(comment: str) -> dict[str, Any] | None:
    text = comment.strip()
    if text.startswith("{"):
        return _json_settings(text)
    if found := _SHORT.search(text):
        return _short_settings(found.group(1))
    if _MEANT_FOR_US.search(text):
        raise _BrokenError(f"the comment is neither relance:MODE nor JSON; {_QUOTING}")
    return None


def _json_settings(text: str) -> dict[str, Any] | None:
    twice: list[str] = []

    def whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        return found

    try:
        data = json.loads(text, object_pairs_hook=whole)
    except (ValueError, RecursionError):
        if _MEANT_FOR_US.search(text):
            raise _BrokenError(f"the comment is not JSON; {_QUOTING}") from None
        return None
    if not isinstance(data, dict) or "relance" not in data:
        if isinstance(data, dict) and any(name.strip().lower() == "relance" for name in data):
            raise _BrokenError('the comment has "relance" in another spelling')
        return None
    if twice:
        raise _BrokenError(f"the comment has {_shown(twice[0])} twice")
    settings = data["relance"]
    if not isinstance(settings, dict):
        raise _BrokenError('"relance" in the comment is not an object')
    return settings


def _short_settings(text: str) -> dict[str, Any]:
    mode, *rest = text.split(",")
    is_mode = "=" not in mode and mode != _ARM
    settings: dict[str, Any] = {"mode": mode} if is_mode else {}
    for part in rest if is_mode else [mode, *rest]:
        name, equals, value = part.partition("=")
        if part == _ARM:
            settings[_ARM] = True
            continue
        if not equals:
            raise _BrokenError(f"{_shown(part)} is not of the form name=value")
        known = _SHORT_NAMES.get(name, name)
        settings[known] = _number(value) if known in ("max_restarts", "hang_after_s") else value
    return settings


def _number(text: str) -> object:
    """The number in the text; the text itself when there is none, for the check to complain about."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text


def _wish(settings: Mapping[str, Any], limits: Limits) -> Wish:
    wish, notes = Wish(), []
    is_broken = False
    for name, value in settings.items():
        read = _READERS.get(name)
        if read is None:
            notes.append(f"{_shown(name)} is not a setting of ours and was ignored")
            continue
        try:
            wish, note = read(wish, value, limits)
            notes += [note] if note else []
        except _BrokenError as error:
            is_broken = True
            notes.append(str(error))
    if is_broken:
        wish = lowered(wish)
        notes.append("so the job stays in observe")
    return replace(wish, notes=tuple(notes))


def _other_wish(other: OtherForm, limits: Limits) -> Wish:
    """The wish of a comment in another engine's form."""
    if other.broken:
        return replace(_broken(other.broken), form=other.form)
    wish = _wish(other.settings, limits)
    return replace(wish, form=other.form, notes=(*other.notes, *wish.notes))


def _mode(wish: Wish, value: object, _limits: Limits) -> tuple[Wish, str]:
    if value is False:  # what YAML makes of a bare `off`
        value = Stage.OFF.value
    if not isinstance(value, str) or value not in {stage.value for stage in Stage}:
        raise _BrokenError(f"mode is {_shown(value)}, not one of {', '.join(stage.value for stage in Stage)}")
    return replace(wish, mode=Stage(value)), ""


def _max_restarts(wish: Wish, value: object, limits: Limits) -> tuple[Wish, str]:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _BrokenError(f"max_restarts is {_shown(value)}, not a whole number from 0")
    most = limits.restarts.in_all
    note = f"max_restarts {_shown(value)} was clipped to {most}, the site's limit" if value > most else ""
    return replace(wish, max_restarts=min(value, most)), note


def _hang_after_s(wish: Wish, value: object, limits: Limits) -> tuple[Wish, str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise _BrokenError(f"hang_after_s is {_shown(value)}, not a number of seconds")
    least, most = limits.hang.suspected_min_s, MAX_HANG_AFTER_S
    clipped = float(min(max(value, least), most))  # a whole number may be too large to be made a float
    note = f"hang_after_s {_shown(value)} was clipped to {clipped:g}" if clipped != value else ""
    return replace(wish, hang_after_s=clipped), note


def _logs(wish: Wish, value: object, _limits: Limits) -> tuple[Wish, str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _BrokenError("logs is not a list of paths")
    for item in value:
        if not item or len(item) > MAX_PATH_CHARS or "\0" in item or "\n" in item:
            raise _BrokenError(f"logs has {_shown(item)}, which is no path of at most {MAX_PATH_CHARS} characters")
        if not _is_text(item):
            raise _BrokenError(f"logs has {_shown(item)}, which is no text")
        if "**" in item:
            raise _BrokenError(f"logs has {_shown(item)}: ** is not allowed")
    note = f"logs names {len(value)} paths; only the first {MAX_LOGS} are followed" if len(value) > MAX_LOGS else ""
    return replace(wish, logs=tuple(value[:MAX_LOGS])), note


def _workflow(wish: Wish, value: object, _limits: Limits) -> tuple[Wish, str]:
    if not isinstance(value, str) or not value or len(value) > MAX_WORKFLOW_CHARS or not value.isprintable():
        raise _BrokenError(f"workflow is {_shown(value)}, not a name of at most {MAX_WORKFLOW_CHARS} characters")
    return replace(wish, workflow=value), ""


def _progress(wish: Wish, value: object, _limits: Limits) -> tuple[Wish, str]:
    if not isinstance(value, str) or not value or len(value) > MAX_PATTERN_CHARS:
        raise _BrokenError(f"progress is {_shown(value)}, not a pattern of at most {MAX_PATTERN_CHARS} characters")
    if not _is_text(value):
        raise _BrokenError(f"progress is {_shown(value)}, which is no text")
    return replace(wish, progress=value), ""


def _arm_requeue(wish: Wish, value: object, _limits: Limits) -> tuple[Wish, str]:
    if not isinstance(value, bool):
        raise _BrokenError(f"{_ARM} is {_shown(value)}, not true or false")
    return replace(wish, arm_requeue=value), ""


_READERS: Mapping[str, Callable[[Wish, object, Limits], tuple[Wish, str]]] = {
    "mode": _mode,
    "max_restarts": _max_restarts,
    "hang_after_s": _hang_after_s,
    "logs": _logs,
    "workflow": _workflow,
    "progress": _progress,
    _ARM: _arm_requeue,
}


def _broken(note: str) -> Wish:
    return Wish(mode=Stage.OBSERVE, notes=(f"{note}; so the job stays in observe",))


def _is_text(value: str) -> bool:
    """Whether it can be written at all: JSON can name halves of signs, which no file or answer takes."""
    return not any("\ud800" <= sign <= "\udfff" for sign in value)


def _shown(value: object) -> str:
    """A piece of foreign input in a note: short, on one line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # such as a number of more digits than Python writes
        text = "something too large to be shown"
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - fits a line
