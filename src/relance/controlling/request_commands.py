"""The one command by which a person's request is carried out. Pure."""

from __future__ import annotations

from typing import Protocol

from relance.domain.advice import Command, Effect
from relance.domain.keys import stable_id
from relance.domain.nodes import Drain, NodeChange, Reserve, Undrain, Unreserve
from relance.domain.request_checks import Found
from relance.domain.requests import Request, RequestVerb
from relance.domain.views import JobView


class MakesCommands(Protocol):
    """What is needed of a scheduler here."""

    def cancel(self, job: JobView) -> Command:
        """The command that ends a job for good."""
        ...

    def arm(self, job: JobView, *, allowed: bool) -> Command:
        """The command that lets a running job be requeued, or not any more."""
        ...

    def hold(self, job: JobView) -> Command:
        """The command that keeps a waiting job from starting."""
        ...

    def release(self, job: JobView) -> Command:
        """The command that lets a held job start."""
        ...

    def change_node(self, change: NodeChange) -> Command:
        """The command that changes a node."""
        ...


def effect_of(request: Request, found: Found, scheduler: MakesCommands) -> Effect:
    """The exact command. Raises what the scheduler raises where it has none for this."""
    command = _command(request, found, scheduler)
    until = f" until {request.until:%Y-%m-%d %H:%M UTC}" if request.until else ""
    summary = f"{request.verb.value} {request.subject}{until}, asked for by {request.by}"
    digest = stable_id("request", request.id, *command.argv)
    return Effect(summary=summary, commands=(command,), digest=digest)


def _command(request: Request, found: Found, scheduler: MakesCommands) -> Command:
    if found.job is not None:
        return _of_job(request.verb, found.job, scheduler)
    if request.verb is RequestVerb.QUARANTINE:
        until = request.until or found.at
        return scheduler.change_node(Reserve(node=request.node, name=request.mark, until=until))
    if request.verb is RequestVerb.DRAIN:
        return scheduler.change_node(Drain(node=request.node, reason=request.mark))
    if request.undoes_verb is RequestVerb.DRAIN:
        return scheduler.change_node(Undrain(node=request.node))
    return scheduler.change_node(Unreserve(node=request.node, name=request.mark))


def _of_job(verb: RequestVerb, job: JobView, scheduler: MakesCommands) -> Command:
    match verb:
        case RequestVerb.CANCEL:
            return scheduler.cancel(job)
        case RequestVerb.HOLD:
            return scheduler.hold(job)
        case RequestVerb.RELEASE:
            return scheduler.release(job)
        case RequestVerb.ARM | RequestVerb.DISARM:
            return scheduler.arm(job, allowed=verb is RequestVerb.ARM)
        case RequestVerb.QUARANTINE | RequestVerb.DRAIN | RequestVerb.RETURN:
            raise ValueError(f"{verb.value} is not about a job")
