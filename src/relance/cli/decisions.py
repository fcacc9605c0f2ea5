"""The verbs with which people decide. Each is recorded with the name of the token."""

from __future__ import annotations

import sys

import click

from relance.cli.asking import Asking, Duration, asks
from relance.cli.failures import ExitCode, FailureError
from relance.cli.stories import show_decision
from relance.domain.advice import Advice
from relance.domain.stages import Stage
from relance.recovery import wordings
from relance.recovery.stories import IncidentStory


@click.command("approve")
@click.argument("ident", metavar="ID")
@click.option("--for", "for_s", type=Duration(), help="How long the approval is good; default and most: the site's.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks
def approve(ask: Asking, /, ident: str, for_s: float | None, yes: bool) -> None:  # noqa: FBT001 - an option
    """Say yes to the advice on ID, an incident or an advice.

    What would be done is shown, and asked about. The yes is bound to exactly that: when the advice or its commands
    change before it is carried out, it is void.
    """
    story = ask.client.incident_story(ident)
    advice = _advice_of(story)
    if story.not_approvable or story.effect is None:
        raise FailureError(f"there is nothing to approve: {story.not_approvable}", code=ExitCode.REFUSED)
    if not yes:
        _ask_first(ask, story, "Approve exactly this?")
    approved = ask.client.approve(advice.id, advice.generation, story.effect.digest, for_s)
    if ask.screen.as_json:
        ask.screen.data(approved)
        return
    ask.screen.line(f"approved as {approved.by}, good until {approved.until:%H:%M:%S UTC}", "good")


@click.command("deny")
@click.argument("ident", metavar="ID")
@click.option("--reason", default="", help="Why; people read it.")
@asks
def deny(ask: Asking, /, ident: str, reason: str) -> None:
    """Say no to the advice on ID, an incident or an advice; the incident is then left to people."""
    advice = _advice_of(ask.client.incident_story(ident))
    denied = ask.client.deny(advice.id, advice.generation, reason)
    if ask.screen.as_json:
        ask.screen.data(denied)
        return
    ask.screen.line(f"denied as {denied.by}")


@click.command("off")
@click.argument("job")
@click.option("--for", "for_s", type=Duration(), help="For how long, such as 4h; default: for good.")
@click.option("--undo", is_flag=True, help="Lift the switch.")
@click.option("--reason", default="", help="Why; people read it.")
@asks
def off(ask: Asking, /, job: str, for_s: float | None, undo: bool, reason: str) -> None:  # noqa: FBT001 - an option
    """Leave JOB alone: nothing is begun on it, and nothing new is read."""
    if undo and for_s is not None:
        raise click.UsageError("--undo and --for exclude each other")
    stage = ask.client.switch_job(job, None if undo else Stage.OFF, for_s, reason)
    if ask.screen.as_json:
        ask.screen.data(stage)
        return
    ask.screen.line(f"{stage.name} ({stage.job.raw_id}) is at {stage.effective.stage.value}")
    for reason_why in stage.effective.why:
        ask.screen.line(f"  {reason_why}", "quiet")
    if for_s is not None:
        ask.screen.line(f"  for {wordings.duration(for_s)}, then as before", "quiet")


@click.command("wrong")
@click.argument("job")
@click.argument("text")
@asks
def wrong(ask: Asking, /, job: str, text: str) -> None:
    """Say that the verdict on JOB is wrong, and in TEXT what it was. No further action is taken on this job."""
    stage = ask.client.disagree(job, text)
    if ask.screen.as_json:
        ask.screen.data(stage)
        return
    ask.screen.line(f"recorded; {stage.name} ({stage.job.raw_id}) is at {stage.effective.stage.value}")


def _advice_of(story: IncidentStory) -> Advice:
    if story.advice is None:
        raise FailureError(f"incident {story.incident.id} has no advice", code=ExitCode.NOT_FOUND)
    return story.advice


def _ask_first(ask: Asking, story: IncidentStory, question: str) -> None:
    if ask.screen.as_json or not sys.stdin.isatty():
        raise click.UsageError("this asks before it does something; say --yes where nobody can answer")
    ask.screen.fact("job", f"{story.job.name} ({story.job.job.raw_id}) of {story.job.user}")
    ask.screen.fact("whose fault", story.fault)
    show_decision(ask.screen, story)
    if not click.confirm(question):
        raise FailureError("nothing was approved")
