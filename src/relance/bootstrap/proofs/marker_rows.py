"""What it means where a marker's line came out, and how late. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from relance.bootstrap.proofs.facts import Failure
from relance.bootstrap.proofs.node_names import node_of, template_for
from relance.bootstrap.proofs.rows import Level, Row
from relance.config.sources import LogStoreSettings
from relance.domain.views import JobState, JobView
from relance.ports.markers import MARKER
from relance.recovery import wordings
from relance.sources.templates import job_value

SKEW_S = 2.0
"""Clocks that are kept in step differ by less."""
_LINE = re.compile(MARKER.encode() + rb" ([0-9a-f]{8,64}) (\d{9,11}(?:\.\d{1,9})?)(?: (\S{1,200}))?")


class Written(NamedTuple):
    """What the line says of itself: when it was written by its node's clock, seconds since 1970, and on which node."""

    at_s: float
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A marker that is under way, with the job that writes it."""

    mark: str
    cluster: str
    raw_id: str
    submitted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A marker's line as a source gave it, first seen at `at`. `stamped_s` is the time that a store has for it."""

    at: datetime
    written: Written
    stamped_s: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """All that became of a marker. `astray` are labels of stores that have the line where nobody looks for it."""

    sent: Sent
    view: JobView | None
    found: Mapping[str, Delivered]
    failures: Mapping[str, Failure]
    astray: Mapping[str, Mapping[str, str]]
    waited_s: float


def read_line(line: bytes, mark: str) -> Written | None:
    """What a line with this mark says; None: it has another one, or none."""
    found = _LINE.search(line)
    if found is None or found[1].decode() != mark:
        return None
    return Written(float(found[2]), (found[3] or b"").decode("utf-8", "replace"))


def marker_rows(marked: Marked, stores: Sequence[LogStoreSettings], *, with_files: bool) -> tuple[Row, ...]:
    """The rows: the job first, then each source."""
    rows = [_job(marked)]
    if with_files:
        rows.append(_files(marked))
    for settings in stores:
        rows += _store(marked, settings)
    rows += _clock(marked)
    return tuple(rows)


def _job(marked: Marked) -> Row:
    view, raw_id = marked.view, marked.sent.raw_id
    name, read = "marker", f"job {raw_id}"
    failure = marked.failures.get("scheduler")
    if view is None:
        if marked.found:
            text = "it ran; the scheduler was not asked, or has forgotten it already"
            return Row(source="scheduler", name=name, level=Level.OK, read=read, means=text)
        text = f"what became of it is not known: {failure.why}" if failure else "what became of it is not known"
        remedy = (failure and failure.remedy) or f"look at it: squeue --jobs={raw_id}"
        return Row(source="scheduler", name=name, level=Level.BAD, read=read, means=text, remedy=remedy)
    if view.started_at is None or (view.state is JobState.DEADLINE and not view.nodes):
        why = f" ({view.reason})" if view.reason else ""
        text = f"it did not start within {wordings.duration(marked.waited_s)}{why}, and was taken back"
        remedy = "wait for longer (--timeout 30m), or name a --partition with free nodes"
        return Row(source="scheduler", name=name, level=Level.BAD, read=read, means=text, remedy=remedy)
    where = f"{read} on {wordings.nodes(view.nodes)}"
    if view.state is JobState.COMPLETED or not view.state.is_over:
        text = "it ran and ended" if view.state.is_over else "it runs, and ends by itself"
        return Row(source="scheduler", name=name, level=Level.OK, read=where, means=text)
    text = f"it ended as {wordings.name(view.state.value)} {view.reason}".rstrip()
    remedy = "see why with `sacct -j`; most often its output could not be written: name another --output"
    level = Level.WARN if marked.found else Level.BAD
    return Row(source="scheduler", name=name, level=level, read=where, means=text, remedy=remedy)


def _files(marked: Marked) -> Row:
    found = marked.found.get("files")
    if found is not None:
        read = f"{found.labels.get('file', '')}, {_late(found)}"
        return Row(source="files", name="marker", level=Level.OK, read=read, means="the line is read where it lies")
    failure, view = marked.failures.get("files"), marked.view
    paths = ", ".join(view.log_paths) if view is not None else ""
    if failure is not None:
        return Row(
            source="files", name="marker", level=Level.BAD, read=paths or "-", means=failure.why, remedy=failure.remedy
        )  # fmt: skip
    text = f"the line was not read within {wordings.duration(marked.waited_s)}"
    remedy = "see that this host mounts the folder (--output names another), and that log_roots has it"
    return Row(source="files", name="marker", level=Level.BAD, read=paths or "-", means=text, remedy=remedy)


def _store(marked: Marked, settings: LogStoreSettings) -> Iterator[Row]:
    source, name = settings.called, "marker"
    found = marked.found.get(source)
    if found is None:
        yield _not_there(marked, settings)
        return
    late_s = found.at.timestamp() - found.written.at_s
    if late_s > settings.delay_s:
        text = f"the line came later than delay_s ({settings.delay_s:g} s) allows: jobs look silent that are not"
        remedy = f"set delay_s: {max(2 * round(late_s), 1)} for this source, or speed up the shipper"
        yield Row(source=source, name=name, level=Level.WARN, read=_late(found), means=text, remedy=remedy)
    else:
        text = f"the line came within delay_s ({settings.delay_s:g} s)"
        yield Row(source=source, name=name, level=Level.OK, read=_late(found), means=text)
    if settings.node_label:
        yield _node(marked, settings, found)
    if found.stamped_s is not None and abs(found.stamped_s - found.written.at_s) > SKEW_S:
        by_s = found.stamped_s - found.written.at_s
        text = "the store's time of the line is not when it was written, so pauses are measured wrongly by as much"
        remedy = "have the shipper send as soon as it reads, with the time of the line"
        read = f"{by_s:+.1f} s"
        yield Row(source=source, name="its time", level=Level.WARN, read=read, means=text, remedy=remedy)


def _not_there(marked: Marked, settings: LogStoreSettings) -> Row:
    source, raw_id = settings.called, marked.sent.raw_id
    asked = f'{settings.job_label}="{job_value(settings.job_value, marked.sent.cluster, raw_id)}"'
    failure, labels = marked.failures.get(source), marked.astray.get(source)
    if labels is not None:
        shown = ", ".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
        text = f"the line is there, and not under {asked}; its labels are {shown or 'none'}"
        mine = {
            label: made for label, value in labels.items() if (made := template_for([value], {raw_id}, word="raw_id"))
        }
        remedy = "have the shipper set a label with the job's id"
        if mine:
            label, template = min(mine.items(), key=lambda item: len(item[1]))
            remedy = f'set job_label: {label} and job_value: "{template}"'
        return Row(source=source, name="marker", level=Level.BAD, read="astray", means=text, remedy=remedy)
    if failure is not None:
        remedy = failure.remedy or "see that it runs, and that url, tenant and user in the settings are right"
        return Row(source=source, name="marker", level=Level.BAD, read=asked, means=failure.why, remedy=remedy)
    text = f"the line did not come within {wordings.duration(marked.waited_s)}"
    remedy = "see that the shipper runs on the node, and reads the folder where jobs write (--output names another)"
    return Row(source=source, name="marker", level=Level.BAD, read=asked, means=text, remedy=remedy)


def _node(marked: Marked, settings: LogStoreSettings, found: Delivered) -> Row:
    source, name, value = settings.called, "node of marker", found.labels.get(settings.node_label, "")
    nodes = frozenset(marked.view.nodes if marked.view is not None else ()) | ({found.written.node} - {""})
    read = f'{settings.node_label}="{value}"'
    if not value:
        text = f"the line has no label {settings.node_label}: it is of no known node"
        remedy = "have the shipper set it, or set node_label to one of: " + ", ".join(sorted(found.labels))
        return Row(source=source, name=name, level=Level.BAD, read="none", means=text, remedy=remedy)
    if node_of(value, settings.node_value) in nodes or not nodes:
        return Row(
            source=source, name=name, level=Level.OK, read=read, means="that is the node on which it was written"
        )
    template = template_for([value], nodes)
    text = f"it was written on {', '.join(sorted(nodes))}, which the scheduler calls so"
    remedy = f'set node_value: "{template}"' if template else "set node_label to the label with the scheduler's name"
    return Row(source=source, name=name, level=Level.BAD, read=read, means=text, remedy=remedy)


def _clock(marked: Marked) -> Iterator[Row]:
    """Whether the node wrote the line before it was submitted, or after it came, by its own clock."""
    found = min(marked.found.values(), key=lambda each: each.at, default=None)
    if found is None:
        return
    behind_s = marked.sent.submitted_at.timestamp() - found.written.at_s
    ahead_s = found.written.at_s - found.at.timestamp()
    apart_s = max(behind_s, ahead_s, 0.0)
    node = found.written.node or "its node"
    if apart_s < SKEW_S:
        text, read = "it agrees with ours, as far as can be told", f"{node}, within {wordings.duration(-ahead_s)}"
        yield Row(source="scheduler", name="clock of the node", level=Level.OK, read=read, means=text)
        return
    side = "ahead of" if ahead_s > behind_s else "behind"
    read, text = node, f"it is at least {apart_s:.0f} s {side} ours: times of lines are wrong by as much"
    remedy = "keep the clocks of nodes and of this host in step: chronyc tracking"
    yield Row(source="scheduler", name="clock of the node", level=Level.BAD, read=read, means=text, remedy=remedy)


def _late(found: Delivered) -> str:
    late_s = found.at.timestamp() - found.written.at_s
    return f"{max(late_s, 0.0):.1f} s after it was written"
