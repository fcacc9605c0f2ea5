"""`relance`: the verbs, each loaded when it is called, so that help and completion are quick."""

from __future__ import annotations

import importlib

import click

VERBS = {
    "demo": ("relance.cli.demo:demo", "Train a small model, break it in six ways, and watch it come back."),
    "up": ("relance.cli.roles:up", "Run everything in one process: server, watcher, controller."),
    "server": ("relance.cli.roles:server", "Run the server alone: history, decisions, API, console."),
    "watcher": ("relance.cli.roles:watcher", "Run a watcher alone: it reads logs and finds what goes wrong."),
    "controller": ("relance.cli.roles:controller", "Run a controller alone: it asks the scheduler and acts."),
    "jobs": ("relance.cli.lists:jobs", "List jobs with their progress and stage."),
    "incidents": ("relance.cli.lists:incidents", "List incidents, newest first."),
    "advice": ("relance.cli.lists:advice", "List the advice in force and what it waits for."),
    "nodes": ("relance.cli.lists:nodes", "List nodes, with who is kept out and why."),
    "history": ("relance.cli.lists:history", "List what was seen, concluded and done, in order."),
    "figures": ("relance.cli.lists:figures", "Show how long it takes to detect, act and recover."),
    "report": ("relance.cli.reports:report", "Show what observing proved, and what is missing for act."),
    "why": ("relance.cli.stories:why", "Say whether a job runs, what happened to it, and what happens next."),
    "tail": ("relance.cli.kept:tail", "Print the kept ends of a job's logs, which a restart may have emptied."),
    "explain": ("relance.cli.stories:explain", "Tell the story of one incident, in order."),
    "approve": ("relance.cli.decisions:approve", "Say yes to an advice and the commands shown."),
    "deny": ("relance.cli.decisions:deny", "Say no to an advice."),
    "off": ("relance.cli.decisions:off", "Leave a job alone."),
    "wrong": ("relance.cli.decisions:wrong", "Say that the verdict on a job is wrong."),
    "job": ("relance.cli.requests:job", "Cancel, hold or release a job by hand, recorded with your name."),
    "node": ("relance.cli.requests:node", "Keep a node out by hand for a while, or return it."),
    "check": ("relance.cli.checks:check", "Say what Relance sees of a job, lacks on a cluster, or gets as signals."),
    "banner": ("relance.cli.banner:banner", "Print why a job was restarted, for the site's TaskProlog."),
    "canary": ("relance.cli.canary:canary", "Prove on your cluster what Relance makes of jobs that fail on purpose."),
    "runbook": ("relance.cli.runbooks:runbook", "Say what an alarm means, where to look, and what to do."),
    "mode": ("relance.cli.modes:mode", "Show or set how far Relance may go."),
    "storm": ("relance.cli.storms:storm", "Show incidents that many jobs share, or end one by hand."),
    "token": ("relance.cli.tokens:token", "Give and revoke tokens."),
    "watchdog-settings": ("relance.cli.watchdogs:watchdog_settings", "Print a settings file for the watchdog."),
    "slurm-script": ("relance.cli.slurm_scripts:slurm_script", "Print what SSH runs on a cluster for Relance."),
    "diagnose": ("relance.cli.diagnose:diagnose", "Say what happened from logs alone, without a server."),
    "evaluate": ("relance.cli.evaluate:evaluate", "Say how often the answers on labelled cases are right."),
    "rules": ("relance.cli.rules:rules", "List, show and test the rules that recognise faults."),
}
"""Every verb: where its command is, and its line in the help, so that the help loads none of them."""


class Verbs(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order in which a person meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb."""
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="relance", prog_name="relance")
def main() -> None:
    """Decide what to relaunch, where and when.

    Relance watches distributed training jobs, says why one failed, and has the scheduler start it again without the
    nodes that are to blame. It only watches until you tell it to do more: see `relance mode`.

    Exit codes: 0 done, 1 error, 2 wrong usage, 3 not found, 4 server unreachable, 5 refused.
    """
