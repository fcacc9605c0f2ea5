"""What it means what a metric store said. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from relance.bootstrap.proofs.facts import MetricFacts
from relance.bootstrap.proofs.rows import Level, Row, place_of
from relance.config.sources import MetricStoreSettings
from relance.recovery import wordings

_LEAST_LATE_S = 120.0
_LATE_POLLS = 5
_SHOWN = 4


def metric_rows(
    source: str, settings: MetricStoreSettings, found: MetricFacts, wanted: Collection[str], now: datetime
) -> tuple[Row, ...]:
    """The rows of one metric store; names of nodes, and what the rules miss, are judged elsewhere."""
    if found.failure is not None:
        text = f"it does not answer, so nothing of it is seen: {found.failure.why}"
        remedy = found.failure.remedy or "see that it runs, and that url, tenant and user in the settings are right"
        return (
            Row(source=source, name="answers", level=Level.BAD, read=place_of(settings.url), means=text, remedy=remedy),
        )
    rows = [Row(source=source, name="answers", level=Level.OK, read=found.version or "-", means="it answers")]
    rows += [
        Row(
            source=source, name="a query", level=Level.BAD, read="refused or not answered", means=each.why,
            remedy=each.remedy or "see the store's own log",
        )
        for each in found.problems[:_SHOWN]
    ]  # fmt: skip
    rows.append(_names(source, settings, found, wanted))
    if found.series:
        rows += _samples(source, settings, found, now)
    rows += _progress(source, settings, found)
    return tuple(rows)


def _names(source: str, settings: MetricStoreSettings, found: MetricFacts, wanted: Collection[str]) -> Row:
    there = sorted(found.names.intersection(wanted))
    read = f"{len(there)} of {len(wanted)} known series, among {len(found.names)}"
    if there:
        text = f"such as {', '.join(there[:_SHOWN])}"
        return Row(source=source, name="series", level=Level.OK, read=read, means=text)
    of_cluster = ", ".join(f'{name}="{value}"' for name, value in settings.match.items())
    where = f" with {of_cluster}" if of_cluster else ""
    text = f"none of the series that rules ask about is there{where}: no metric of a node says anything"
    remedy = "have DCGM's and node's exporters scraped into it" + (
        ", and see that match is right" if of_cluster else ""
    )
    return Row(source=source, name="series", level=Level.BAD, read=read, means=text, remedy=remedy)


def _samples(source: str, settings: MetricStoreSettings, found: MetricFacts, now: datetime) -> Iterator[Row]:
    ages = {name: now.timestamp() - each.newest_s for name, each in found.series.items() if each.newest_s is not None}
    limit_s = max(_LATE_POLLS * settings.poll_s, _LEAST_LATE_S)
    if ages:
        age_s = min(ages.values())
        read = f"the newest is {wordings.duration(max(age_s, 0.0))} old"
        late = [name for name, each in ages.items() if each > limit_s]
        if age_s > limit_s:
            text = f"samples come later than {wordings.duration(limit_s)}: what fails now is seen too late, or never"
            remedy = "see that the exporters are scraped: `up` in the store tells of each"
            yield Row(source=source, name="samples", level=Level.BAD, read=read, means=text, remedy=remedy)
        elif late:
            text = f"those of {', '.join(late[:_SHOWN])} are older than {wordings.duration(limit_s)}"
            remedy = "see that their exporter is scraped"
            yield Row(source=source, name="samples", level=Level.WARN, read=read, means=text, remedy=remedy)
        else:
            yield Row(source=source, name="samples", level=Level.OK, read=read, means="samples are fresh")
    future = sorted(name for name, each in found.series.items() if each.from_future)
    if future:
        count = sum(found.series[name].from_future for name in future)
        text = "samples from the future hide what is, and look like counters that go backwards"
        remedy = "keep the exporters' clocks in step, and let them set no times of their own"
        read = f"{count} series of {', '.join(future[:_SHOWN])}"
        yield Row(source=source, name="times of samples", level=Level.BAD, read=read, means=text, remedy=remedy)
    broken = sorted(name for name, each in found.series.items() if each.not_numbers)
    if broken:
        every = sum(found.series[name].count for name in broken)
        count = sum(found.series[name].not_numbers for name in broken)
        text = "NaN is no value: no rule hits on it, and no device behind it is called healthy"
        remedy = "see why the exporter has no value: a device that it cannot read, or a field that is switched off"
        read = f"{count} of {every} of {', '.join(broken[:_SHOWN])}"
        level = Level.BAD if count == every else Level.WARN
        yield Row(source=source, name="no numbers", level=level, read=read, means=text, remedy=remedy)


def _progress(source: str, settings: MetricStoreSettings, found: MetricFacts) -> Iterator[Row]:
    if settings.progress is None:
        return
    for raw_id, counts in found.progress.items():
        name, missing = f"progress of {raw_id}", [name for name, count in counts.items() if not count]
        read = ", ".join(f"{name}: {count}" for name, count in counts.items()) or "no series is named"
        if not counts or len(missing) == len(counts):
            text = f"it exports none of its progress with {settings.progress.job_label}; its logs have to tell it"
            remedy = "set the names and labels of progress to what jobs export, or leave `progress` out"
            yield Row(source=source, name=name, level=Level.WARN, read=read, means=text, remedy=remedy)
        elif missing:
            text, remedy = f"it does not export {', '.join(missing)}", "leave out of the settings what no job exports"
            yield Row(source=source, name=name, level=Level.WARN, read=read, means=text, remedy=remedy)
        else:
            yield Row(source=source, name=name, level=Level.OK, read=read, means="it exports its progress")
