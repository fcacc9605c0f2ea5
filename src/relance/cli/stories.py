"""The verbs that tell a story: of a job, and of an incident."""

from __future__ import annotations

import click

from relance.cli.asking import Asking, asks
from relance.cli.quotes import show_quote
from relance.cli.screens import Screen, clock
from relance.domain.advice import Guard
from relance.domain.verdicts import Opinion
from relance.recovery import wordings
from relance.recovery.stories import Entry, IncidentStory, JobStory
from relance.recovery.tones import glyph, tone


@click.command("why")
@click.argument("job")
@asks
def why(ask: Asking, /, job: str) -> None:
    """Say whether JOB runs, from which step, what was lost, whose fault it was, and what happens next.

    JOB is an id, a name, or a key as `relance jobs --json` shows it.
    """
    story = ask.client.job_story(job)
    if ask.screen.as_json:
        ask.screen.data(story)
    else:
        show_job(ask.screen, story)
        if ask.is_owner:
            job = story.job.job.raw_id
            ask.screen.line(f'not wanted: relance off {job} · not right: relance wrong {job} "WHY"', "quiet")
        elif story.job.incident_id:
            ask.screen.line(f"the whole story: relance explain {story.job.incident_id}", "quiet")


def show_job(screen: Screen, story: JobStory) -> None:
    """The five answers and what stands behind them."""
    row, answers = story.job, story.answers
    if story.alarm:
        screen.line(story.alarm, "bad")
    screen.line(
        f"{row.name or row.job.raw_id} ({row.job.raw_id}) of {row.user} in {row.partition} on {row.job.cluster}"
    )
    screen.fact("running", answers.running)
    screen.fact("from step", answers.from_step)
    screen.fact("lost", answers.lost)
    screen.fact("whose fault", answers.fault)
    if story.happened:
        screen.fact("what happened", story.happened)
    if story.quote is not None:
        show_quote(screen, story.quote)
    show_opinions(screen, story.opinions)
    screen.fact("what next", answers.next, "busy" if row.incident_id else "")
    screen.fact("stage", f"{row.stage.stage.value} ({'; '.join(row.stage.why)})")
    if story.storm is not None:
        screen.fact("shared with others", f"a storm {story.storm.place}: {story.storm.reason}", "bad")
    for gate in story.closed:
        screen.fact("gate closed", gate)
    for note in story.notes:
        screen.fact("note", note)
    if story.kept:
        newest = max(item.attempt.restart_count for item in story.kept)
        files = [item.file for item in story.kept if item.attempt.restart_count == newest]
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        screen.fact("kept", f"the end of {files[0]}{more} of attempt {newest + 1}: relance tail {row.job.raw_id}")


@click.command("explain")
@click.argument("incident", metavar="ID")
@asks
def explain(ask: Asking, /, incident: str) -> None:
    """Tell the story of one incident in order, with its evidence.

    ID is that of an incident (its beginning is enough), of an advice, or of an action.
    """
    story = ask.client.incident_story(incident)
    if ask.screen.as_json:
        ask.screen.data(story)
    else:
        show_incident(ask.screen, story)


def show_incident(screen: Screen, story: IncidentStory) -> None:
    """An incident from what it is to its last event."""
    item, row = story.incident, story.job
    state = item.end or item.state
    screen.line(f"{wordings.name(item.cause) or 'incident'}: {wordings.name(state.value)}", tone(state))
    screen.fact("incident", item.id)
    screen.fact("job", f"{row.name} ({row.job.raw_id}) of {row.user}, attempt {item.attempt.restart_count + 1}")
    screen.fact("whose fault", story.fault or ("not judged" if item.end else "not judged yet"))
    if story.happened:
        screen.fact("what happened", story.happened)
    if story.quote is not None:
        show_quote(screen, story.quote)
    if story.verdict is not None and story.verdict.gaps:
        screen.fact("not seen", "; ".join(story.verdict.gaps))
    if story.verdict is not None and story.verdict.not_counted:
        screen.fact("not counted", "; ".join(story.verdict.not_counted))
    if story.verdict is not None:
        show_opinions(screen, story.verdict.opinions)
    if story.storm is not None:
        screen.fact("part of", f"storm {story.storm.storm_id} {story.storm.place}: {story.storm.reason}")
    screen.fact("what next", story.next)
    _milestones(screen, story)
    show_decision(screen, story)
    for command in story.by_hand:
        screen.fact("by hand", command, "quiet")
    for piece in story.kept:
        where = f"{piece.file}, {piece.size_bytes} bytes from byte {piece.start_offset}"
        screen.fact("kept", f"{where}: relance tail {row.job.raw_id} (attachment {piece.digest[:12]})")
    screen.line()
    for entry in story.entries:
        _entry(screen, entry)


def show_decision(screen: Screen, story: IncidentStory) -> None:
    """The advice with its reasons, guards, gates, and the exact commands."""
    advice = story.advice
    if advice is None:
        return
    screen.line()
    hold = "hold, then " if advice.hold else ""
    screen.line(f"advice {advice.generation}: {hold}{wordings.action(advice)}", "busy")
    for reason in advice.reasons:
        screen.line(f"  because {reason}")
    for guard in (*advice.guards, *story.gates):
        _guard(screen, guard)
    for command in story.commands:
        screen.line(f"  $ {command}")


def show_opinions(screen: Screen, opinions: tuple[Opinion, ...]) -> None:
    """What outside providers said, a line each."""
    for opinion in opinions:
        screen.fact("asked outside", f"{opinion.provider}: {wordings.opinion(opinion)}", "quiet")


def _guard(screen: Screen, guard: Guard) -> None:
    answer = guard.answer
    screen.line(f"  {glyph(answer)} {wordings.name(guard.name)}: {wordings.opening(guard)}", tone(answer))


def _milestones(screen: Screen, story: IncidentStory) -> None:
    known = [line for line in story.milestones if line.stamp is not None]
    if not known:
        return
    screen.line()
    screen.table(
        ("milestone", "at (UTC)", "#since the symptom", "clock"),
        (
            (
                line.wording,
                clock(line.stamp.at) if line.stamp else "-",
                "-" if line.since_symptom_s is None else f"{line.since_symptom_s:+.1f} s",
                line.stamp.clock if line.stamp else "-",
            )
            for line in known
        ),
        empty="",
    )


def _entry(screen: Screen, entry: Entry) -> None:
    who = f" [{entry.who}]" if entry.who else ""
    screen.line(f"{clock(entry.at)}  {entry.title}{who}")
    if entry.detail:
        screen.line(f"    {entry.detail}", "quiet")
    for quote in entry.quotes[:1]:
        show_quote(screen, quote)
    for command in entry.commands:
        screen.line(f"    $ {command}")
