"""How a cluster is reached, tried out for people: connection, host key, script, container, token."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from relance.controllers.slurm.levels import Fitness, Level
from relance.ports.clocks import Clock
from relance.slurm import containers, scripts, ssh
from relance.slurm.containers import Container
from relance.slurm.running import Commands, run
from relance.slurm.ssh import Greeting, Ssh
from relance.slurm.tokens import TokenError, read_token

_LIMIT_S = 10.0
_FREE = "echo relance-may-run-anything"
"""A word that a key held to the script cannot run."""
_NOT_LISTED = ("scontrol", "ping")
"""A harmless command that we never build: a script with its list in force does not run it."""
_INSTALL = "install this release's there: relance slurm-script > {script}"


async def accesses(commands: Commands, clock: Clock) -> tuple[Fitness, ...]:
    """What was found on the way to the cluster; nothing is changed there."""
    token = _token(commands.token_file, clock)
    match commands.way:
        case Ssh() as way:
            return (*await _by_ssh(commands, way), *token, _files(way.name))
        case Container() as way:
            return (*await _in_container(way), *token, _files("a container"))
        case None:
            read = commands.bin_dir or "found by PATH"
            text = "Slurm's commands are run on this host"
            return (Fitness(name="access", level=Level.OK, text=text, read=read), *token)


async def _by_ssh(commands: Commands, way: Ssh) -> Sequence[Fitness]:
    heard = await ssh.greet(way, word=way.script, time_limit_s=_LIMIT_S, ours=os.environ)
    greeting = ssh.greeting_of(heard)
    if greeting is None:
        return (_unreached(ssh.why_unreached(way, heard), way.name),)
    return (
        _connection(way, greeting),
        _script(way, greeting),
        await _list_in_force(commands, way),
        await _held_to_script(way),
    )


def _unreached(why: str, read: str) -> Fitness:
    said, _, remedy = why.partition(": ")
    return Fitness(name="access", level=Level.BLOCKS_OBSERVE, text=said, remedy=remedy, read=read)


def _connection(way: Ssh, greeting: Greeting) -> Fitness:
    known = way.known_hosts or "the user's and the machine's known_hosts"
    read = f"{way.name} as {greeting.account[0]}, host key in {known}"
    if greeting.preamble:
        text = "reached by SSH; the login shell there prints something of its own before the answer"
        remedy = "make it print nothing where there is no terminal"
        return Fitness(name="access", level=Level.WARN, text=text, remedy=remedy, read=read)
    return Fitness(name="access", level=Level.OK, text="reached by SSH, and its host key is the known one", read=read)


def _script(way: Ssh, greeting: Greeting) -> Fitness:
    read = f"{way.script}, protocol {greeting.protocol}, list {greeting.digest}"
    remedy = _INSTALL.format(script=way.script)
    if greeting.protocol != scripts.PROTOCOL:
        text = "the script there speaks another protocol: nothing can be asked"
        return Fitness(name="script", level=Level.BLOCKS_OBSERVE, text=text, remedy=remedy, read=read)
    if greeting.digest != scripts.DIGEST:
        text = "the script there is of another release: it may refuse a command in the middle of a restart"
        return Fitness(name="script", level=Level.BLOCKS_ACT, text=text, remedy=remedy, read=read)
    if greeting.read_only:
        text = "the script there only reads: right for observe, where it cannot act by construction"
        remedy = "for act install it without --read-only"
        return Fitness(name="script", level=Level.BLOCKS_ACT, text=text, remedy=remedy, read=read)
    return Fitness(name="script", level=Level.OK, text="the script there is of this release", read=read)


async def _list_in_force(commands: Commands, way: Ssh) -> Fitness:
    output = await run(commands, _NOT_LISTED, time_limit_s=_LIMIT_S)
    asked = " ".join(_NOT_LISTED)
    if output.never_ran and not output.unreached:
        text = "what Relance never needs is refused there"
        return Fitness(name="allow_list", level=Level.OK, text=text, read=f"{asked}: refused")
    read = f"{asked}: {'no answer' if output.exit_code is None else f'exit code {output.exit_code}'}"
    text = "a command that is on no list was not refused there: what answers is not our script"
    remedy = _INSTALL.format(script=way.script)
    return Fitness(name="allow_list", level=Level.BLOCKS_OBSERVE, text=text, remedy=remedy, read=read)


async def _held_to_script(way: Ssh) -> Fitness:
    heard = await ssh.greet(way, word=_FREE, time_limit_s=_LIMIT_S, ours=os.environ)
    if heard.greeting is not None:
        text = "our key can run the script there and nothing else"
        return Fitness(name="key", level=Level.OK, text=text, read="another word: the script answered")
    is_free = _FREE.rpartition(" ")[2] in f"{heard.answer.decode('utf-8', 'replace')}{heard.preamble!r}"
    text = "our key can run anything there" if is_free else "whether our key can run anything else cannot be told"
    remedy = f'put restrict,command="{way.script}" (with its whole path) before it in authorized_keys'
    read = "another word: it was run" if is_free else f"another word: {heard.stderr.strip()[:80] or 'no answer'}"
    return Fitness(name="key", level=Level.WARN, text=text, remedy=remedy, read=read)


async def _in_container(way: Container) -> Sequence[Fitness]:
    heard = await containers.enter(way, time_limit_s=_LIMIT_S, ours=os.environ)
    inside = containers.inside_of(heard)
    if inside is None:
        return (_unreached(containers.why_unreached(way, heard), way.name),)
    read = f"{way.name}, as {inside.account[0]}"
    if inside.has_timeout:
        text = "entered, and each command is ended inside at its limit"
        return (Fitness(name="access", level=Level.OK, text=text, read=read),)
    text = "entered, but there is no `timeout` inside: a command that hangs goes on there after we gave it up"
    remedy = "put coreutils into the image"
    return (Fitness(name="access", level=Level.BLOCKS_ACT, text=text, remedy=remedy, read=read),)


def _token(path: str | None, clock: Clock) -> tuple[Fitness, ...]:
    if path is None:
        return ()
    renew = f"write a new one into {path}: scontrol token lifespan=…"
    try:
        token = read_token(path)
    except TokenError as error:
        return (Fitness(name="token", level=Level.BLOCKS_OBSERVE, text=str(error), remedy=renew, read=path),)
    if token.expires_s is None:
        text = "the token does not say until when it is good: nobody can be told before it ends"
        return (Fitness(name="token", level=Level.WARN, text=text, read=path),)
    now_s = clock.now().timestamp()
    read = f"{path}, good until {datetime.fromtimestamp(token.expires_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if token.expires_s <= now_s:
        text = "the token for Slurm has expired: nothing is answered"
        return (Fitness(name="token", level=Level.BLOCKS_OBSERVE, text=text, remedy=renew, read=read),)
    if token.is_short(now_s):
        text = "the token for Slurm ends soon"
        return (Fitness(name="token", level=Level.WARN, text=text, remedy=renew, read=read),)
    return (Fitness(name="token", level=Level.OK, text="the token for Slurm is good for a while", read=read),)


def _files(where: str) -> Fitness:
    """What is read of files, and not by Slurm's commands: only this host's mounts count."""
    text = (
        "Slurm's commands are run elsewhere, files are read here: job logs and .relance.yaml are seen where the "
        "cluster's folders are mounted here, under the same paths; settings in comments count anywhere"
    )
    return Fitness(name="files", level=Level.OK, text=text, read=f"commands by {where}")
