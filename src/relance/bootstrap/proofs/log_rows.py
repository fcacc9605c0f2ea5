"""What it means what a log store said. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from statistics import median

from relance.bootstrap.proofs.facts import FilterFacts, JobLines, LagFacts, LogFacts, StepFacts, WantedJob
from relance.bootstrap.proofs.rows import Level, Row, place_of
from relance.config.sources import LogStoreSettings
from relance.recovery import wordings
from relance.rules import mask
from relance.sources.stores.times import NS_PER_S

SILENT_S = 600.0
"""A job that writes nothing for so long is rare; what ships its lines may be down."""
YOUNG_S = 300.0
"""A job may be so old before its first line, or its first step, is missed."""
CLOCK_S = 5.0
"""Clocks that are set by time servers are far closer than that."""
_LABELS_SHOWN = 12


def log_rows(source: str, settings: LogStoreSettings, found: LogFacts, now: datetime) -> tuple[Row, ...]:
    """The rows of one log store; names of nodes are judged elsewhere."""
    if found.failure is not None:
        text = f"it does not answer, so nothing of it is seen: {found.failure.why}"
        remedy = found.failure.remedy or "see that it runs, and that url, tenant and user in the settings are right"
        return (
            Row(source=source, name="answers", level=Level.BAD, read=place_of(settings.url), means=text, remedy=remedy),
        )
    rows = [Row(source=source, name="answers", level=Level.OK, read=found.version or "-", means="it answers")]
    if found.clock_ahead_s is not None and abs(found.clock_ahead_s) > CLOCK_S:
        rows.append(_clock(source, found.clock_ahead_s))
    rows += _labels(source, settings, found)
    for lines in found.jobs:
        rows += _job(source, settings, lines, found, now)
    rows += [_filter(source, each, settings.timeout_s) for each in found.filters]
    if found.lag is not None:
        rows.append(_lag(source, settings, found.lag))
    if found.kernel is not None:
        rows.append(_kernel(source, settings, found.kernel, now))
    return tuple(rows)


def _clock(source: str, ahead_s: float) -> Row:
    how = "ahead of" if ahead_s > 0 else "behind"
    read = f"{wordings.duration(abs(ahead_s))} {how} ours"
    text = "lines are read by their times: those of another time are missed, or come late"
    remedy = "set the clocks of the store and of this host by the same time servers"
    return Row(source=source, name="clock", level=Level.BAD, read=read, means=text, remedy=remedy)


def progress_row(source: str, job: WantedJob, steps: StepFacts, lines: int, now: datetime) -> Row:
    """Whether the steps of a job are recognised in its lines."""
    name = f"progress of {job.raw_id}"
    if steps.reader is None:
        is_young = job.started_at is not None and (now - job.started_at).total_seconds() < YOUNG_S
        text = f"no step is recognised in {wordings.count(lines, 'line')}: neither hangs nor slowness of it are seen"
        remedy = (
            "if its log has steps, set progress_patterns for its partition, or `progress` in the job's own settings"
        )
        level = Level.WARN if is_young or not job.is_running else Level.BAD
        return Row(source=source, name=name, level=level, read="no steps", means=text, remedy=remedy)
    pace = f", {steps.median_step_s:.3g} s each" if steps.median_step_s else ", pace not known yet"
    read = f"{wordings.count(steps.steps, 'step')} to {steps.step}, as {steps.reader}{pace}"
    if steps.learned is not None:
        shape = wordings.one_line(mask(steps.learned))
        text = f"its format is not known: N was taken for the step in lines such as: {shape}"
        remedy = "set progress_patterns for its partition to be sure"
        return Row(source=source, name=name, level=Level.WARN, read=read, means=text, remedy=remedy)
    return Row(source=source, name=name, level=Level.OK, read=read, means="its steps are recognised")


def _filter(source: str, found: FilterFacts, timeout_s: float) -> Row:
    """Whether the store takes what the rules ask it for."""
    name, size = f"filter of {found.filter.kind}", f"{len(found.filter.lines.encode()) / 1024:.1f} KiB"
    if found.failure is not None:
        text = f"the store does not take what the rules ask for, so nothing of it is read: {found.failure.why}"
        remedy = found.failure.remedy or "raise the store's limits for queries: their length, and how long they take"
        return Row(source=source, name=name, level=Level.BAD, read=size, means=text, remedy=remedy)
    if not found.filter.lines:
        rules = ", ".join(found.filter.unfit) or "some rules"
        text, remedy = f"all lines travel, because of {rules}", "give these rules a pattern with some fixed text in it"
        return Row(source=source, name=name, level=Level.WARN, read="none", means=text, remedy=remedy)
    read = f"{size}, answered in {found.took_s:.2f} s"
    if found.took_s > timeout_s / 2:
        text = f"the store needs more than half of timeout_s ({timeout_s:g} s) for it"
        remedy = "give the store more memory and cores, or raise timeout_s for this source"
        return Row(source=source, name=name, level=Level.WARN, read=read, means=text, remedy=remedy)
    text = "the store takes what the rules ask for, so that only lines that matter travel"
    return Row(source=source, name=name, level=Level.OK, read=read, means=text)


def _labels(source: str, settings: LogStoreSettings, found: LogFacts) -> Iterator[Row]:
    there = ", ".join(sorted(found.labels)[:_LABELS_SHOWN]) or "none"
    wanted = [
        ("match", tuple(settings.match), Level.BAD, "no stream has it, so nothing is selected"),
        ("job_label", (settings.job_label,), Level.BAD, "lines cannot be told to belong to a job"),
        ("node_label", (settings.node_label,), Level.BAD, "what a line says cannot be laid at a node's door"),
        ("rank_label", (settings.rank_label,), Level.WARN, "ranks are only known where lines say them"),
        ("kernel_match", tuple(settings.kernel_match), Level.BAD, "no kernel line is ever seen"),
    ]
    for setting, names, level, means in wanted:
        missing = [name for name in names if name and name not in found.labels]
        if missing:
            text, remedy = f"{setting} names it, and it is not there: {means}", _other_label(setting, settings, found)
            name, read = f"label {', '.join(missing)}", f"labels: {there}"
            yield Row(source=source, name=name, level=level, read=read, means=text, remedy=remedy)
    present = [name for _, names, _, _ in wanted for name in names if name and name in found.labels]
    if present:
        shown = ", ".join(dict.fromkeys(present))
        yield Row(source=source, name="labels", level=Level.OK, read=shown, means="these labels are there")


def _other_label(setting: str, settings: LogStoreSettings, found: LogFacts) -> str:
    if setting == "job_label" and found.job_clue is not None:
        return f'set job_label: {found.job_clue.label} and job_value: "{found.job_clue.template}"'
    if setting == "node_label" and found.node_clue is not None:
        return f'set node_label: {found.node_clue.label} and node_value: "{found.node_clue.template}"'
    add = "to its stream fields" if settings.kind == "victorialogs" else "as a label"
    return f"set {setting} to one of the labels that are there, or have the shipper add it {add}"


def _job(
    source: str, settings: LogStoreSettings, lines: JobLines, found: LogFacts, now: datetime
) -> Iterator[Row]:  # fmt: skip
    job, name = lines.job, f"lines of {lines.job.raw_id}"
    asked = f'{settings.job_label}="{lines.value}"'
    if lines.failure is not None:
        text = f"its lines could not be asked for: {lines.failure.why}"
        remedy = lines.failure.remedy or "ask again"
        yield Row(source=source, name=name, level=Level.BAD, read=asked, means=text, remedy=remedy)
        return
    if not lines.lines:
        yield _no_lines(source, settings, lines, found, now)
        return
    newest_ns = lines.newest_ns
    age_s = None if newest_ns is None else now.timestamp() - newest_ns / NS_PER_S
    many = "" if lines.is_whole else "the newest "
    read = f"{many}{wordings.count(lines.lines, 'line')}"
    if age_s is not None:
        read += f", the last {wordings.duration(max(age_s, 0.0))} ago"
    if job.is_running and age_s is not None and age_s > SILENT_S:
        text = "none came of late: the job is silent, or what ships its lines is down"
        remedy = "look at the shipper on its nodes; `relance check marker` sends a line through it"
        yield Row(source=source, name=name, level=Level.WARN, read=read, means=text, remedy=remedy)
    else:
        yield Row(source=source, name=name, level=Level.OK, read=read, means="its lines arrive")
    if lines.future_lines:
        yield _future(source, lines, now)
    if settings.node_label and settings.node_label in found.labels and lines.without_node:
        text = f"the label {settings.node_label} is missing on them: they are of no known node"
        remedy = "have the shipper set it on every line of jobs"
        read = f"{lines.without_node} of {wordings.count(lines.lines, 'line')}"
        level = Level.BAD if lines.without_node == lines.lines else Level.WARN
        yield Row(source=source, name=f"nodes of {job.raw_id}", level=level, read=read, means=text, remedy=remedy)
    yield progress_row(source, job, lines.progress, lines.lines, now)


def _no_lines(source: str, settings: LogStoreSettings, lines: JobLines, found: LogFacts, now: datetime) -> Row:
    job, name, read = lines.job, f"lines of {lines.job.raw_id}", f'none for {settings.job_label}="{lines.value}"'
    if found.job_clue is not None:
        text, remedy = "its lines are there, under another label or value", _other_label("job_label", settings, found)
        return Row(source=source, name=name, level=Level.BAD, read=read, means=text, remedy=remedy)
    is_young = job.started_at is not None and (now - job.started_at).total_seconds() < YOUNG_S
    level = Level.BAD if job.is_running and not is_young else Level.WARN
    text = "nothing of it arrives" + (" yet: it began less than five minutes ago" if is_young else "")
    if not job.is_known:
        text += "; the scheduler does not know this job, so it may have written nothing in this time"
    remedy = "see that the shipper reads its log and sets the label; `relance check marker` sends a line through it"
    return Row(source=source, name=name, level=level, read=read, means=text, remedy=remedy)


def _future(source: str, lines: JobLines, now: datetime) -> Row:
    by_s = 0.0 if lines.furthest_ns is None else lines.furthest_ns / NS_PER_S - now.timestamp()
    read = f"{wordings.count(lines.future_lines, 'line')} from the future, by up to {wordings.duration(by_s)}"
    text = "times are wrong: what is silent looks alive, and the order of lines is not theirs"
    remedy = "keep the clocks of nodes, store and this host in step, and have the shipper set times in UTC"
    return Row(
        source=source, name=f"times of {lines.job.raw_id}", level=Level.BAD, read=read, means=text, remedy=remedy
    )  # fmt: skip


def _lag(source: str, settings: LogStoreSettings, lag: LagFacts) -> Row:
    watched = f"watched for {wordings.duration(lag.watched_s)}"
    if lag.why_not or not lag.lags_s:
        text = lag.why_not or "no line came in that time, so how late they come cannot be told"
        remedy = "" if lag.why_not else "watch for longer: --watch 60s; or send a line: `relance check marker`"
        level = Level.WARN if lag.why_not else Level.OK
        return Row(source=source, name="lateness", level=level, read=watched, means=text, remedy=remedy)
    middle_s, worst_s = median(lag.lags_s), max(lag.lags_s)
    read = f"{middle_s:.1f} s in the middle of {wordings.count(len(lag.lags_s), 'line')}, {worst_s:.1f} s at most"
    if worst_s > settings.delay_s:
        text = f"lines come later than delay_s ({settings.delay_s:g} s) allows: a job may look silent that is not"
        remedy = f"set delay_s: {max(2 * round(worst_s), 1)} for this source, or speed up the shipper"
        level = Level.BAD if middle_s > settings.delay_s else Level.WARN
        return Row(source=source, name="lateness", level=level, read=read, means=text, remedy=remedy)
    text = f"lines come within delay_s ({settings.delay_s:g} s)"
    return Row(source=source, name="lateness", level=Level.OK, read=read, means=text)


def _kernel(source: str, settings: LogStoreSettings, kernel: JobLines, now: datetime) -> Row:
    asked = ", ".join(f'{name}="{value}"' for name, value in settings.kernel_match.items())
    if kernel.failure is not None:
        text = f"kernel lines could not be asked for: {kernel.failure.why}"
        return Row(
            source=source, name="kernel lines", level=Level.BAD, read=asked, means=text,
            remedy=kernel.failure.remedy or "ask again",
        )  # fmt: skip
    if not kernel.lines:
        text = "no kernel line came of any node in this time; healthy nodes write few, so this may be right"
        remedy = "look back further (--since 24h), or write one on a node: echo relance-check > /dev/kmsg"
        return Row(source=source, name="kernel lines", level=Level.WARN, read=asked, means=text, remedy=remedy)
    age_s = 0.0 if kernel.newest_ns is None else max(now.timestamp() - kernel.newest_ns / NS_PER_S, 0.0)
    read = f"{wordings.count(kernel.lines, 'line')} of {wordings.count(len(kernel.nodes), 'node')}"
    read += f", the last {wordings.duration(age_s)} ago"
    if kernel.without_node:
        text = "some say of no node whose they are, and count for nothing"
        remedy = f"have the shipper set the label {settings.node_label or '(node_label)'} on kernel lines"
        return Row(source=source, name="kernel lines", level=Level.BAD, read=read, means=text, remedy=remedy)
    return Row(source=source, name="kernel lines", level=Level.OK, read=read, means="kernel lines of nodes arrive")
