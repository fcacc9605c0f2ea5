"""A scheduler's tables as text: `sacct`, `squeue` and `scontrol show job` to jobs, `sinfo` and others to nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from relance.domain.views import NodeState, NodeView
from relance.watching.evidence import values
from relance.watching.evidence.jobs import MOST_JOBS, Expand, SeenJob, jobs_of, nodes_of

_MOST_LINES = 100_000
_MOST_NODES = 65_536
_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w/:()]{0,40})=(.*?)(?=\s+[A-Za-z][\w/:()]{0,40}=|$)")
_REASON_AT = re.compile(r"\d{4}-\d\d-\d\dT\S+|Unknown")
_SET = re.compile(r"^(?P<reason>.*?)\s*\[(?P<user>[^@\]]*)@(?P<at>[^\]]+)\]$")
_ASKED = re.compile(r"scontrol\s+(?:-\S+\s+)*show\s+node[s ]\s*([A-Za-z0-9][\w.-]*)")
_STATE = re.compile(r"\bState=(\S+)")
_REASON = re.compile(r"\bReason=(?P<reason>[^\n]*)")
_STEP = re.compile(r"^(\d+(?:_\d+)?)\.(\S+)$")
_MARKS = "*~#!%$@^-+"
_DOWN = ("down", "error", "future", "not_responding", "notready", "unk", "unknown")
_DRAINED = ("drain", "drained", "draining", "drng", "fail", "failing", "failg")
_PLANNED = (
    "maint", "maintenance", "reboot", "reboot_issued", "reboot_requested", "planned", "pow_dn", "pow_up",
    "powered_down", "powering_down", "powering_up", "power_down", "power_up", "plnd", "boot", "npc",
)  # fmt: skip
_IDLE = ("idle", "ready", "resv", "reserved")
_TAKEN = ("alloc", "allocated", "mix", "mixed", "comp", "completing", "blocked")


def jobs_in(text: str, expand: Expand) -> tuple[SeenJob, ...]:
    """The jobs of a text: rows of a table under their names, or blocks of `name=value`; steps join their job."""
    records = list(_blocks(text, "JobId") if re.search(r"^\s*JobId=", text, re.MULTILINE) else _rows(text))
    steps: dict[str, list[Mapping[str, str]]] = {}
    whole: list[dict[str, object]] = []
    for record in records[:MOST_JOBS]:
        told: dict[str, object] = {_KEYS.get(key.lower(), key.lower()): value for key, value in record.items()}
        told["nodes"] = values.text(told.get("nodes", ""), 65_536)
        if "(" in str(told["nodes"]):
            told["reason"] = str(told["nodes"]).strip("()")
            told["nodes"] = ""
        step = _STEP.match(values.text(told.get("job_id")))
        if step:
            steps.setdefault(step[1], []).append({"step": f"{step[1]}.{step[2]}", **_plain(told)})
        else:
            whole.append(told)
    has_steps = bool(steps)
    for told in whole:
        told["steps"] = steps.get(values.text(told.get("job_id")), []) if has_steps else None
    return jobs_of(whole, expand)


def nodes_in(text: str, expand: Expand) -> tuple[NodeView, ...]:
    """The nodes of a text: of `sinfo` in its usual forms, of `scontrol show node`, of `kubectl get nodes`."""
    records = _blocks(text, "NodeName") if re.search(r"^NodeName=", text, re.MULTILINE) else _rows(text)
    found: dict[str, NodeView] = {}
    for record in records:
        told = {key.lower(): value for key, value in record.items()}
        names = next((told[key] for key in ("nodename", "nodelist", "hostnames", "node", "name") if told.get(key)), "")
        shown = next((told[key] for key in ("state", "statelong", "statecompact", "status") if told.get(key)), "")
        reason, user, at = told.get("reason", ""), told.get("user"), told.get("timestamp")
        inside = _SET.match(reason)
        if inside:
            reason, user, at = inside["reason"], inside["user"], inside["at"]
        state = node_state(shown) if shown else NodeState.DRAINED if reason else NodeState.UNKNOWN
        for name in nodes_of(names, expand):
            if len(found) >= _MOST_NODES:
                return tuple(found.values())
            view = node_view(name, state, reason, user, at)
            # Of a node that is shown in several partitions the row with a reason tells more.
            found[name] = view if name not in found or view.reason else replace(found[name])
    return tuple(found.values())


def nodes_in_notes(text: str) -> tuple[NodeView, ...]:
    """The nodes of a note in which somebody asked `scontrol show node NAME` and kept some lines of the answer."""
    found: list[NodeView] = []
    lines = text.splitlines()[:_MOST_LINES]
    for at, line in enumerate(lines):
        asked = _ASKED.search(line)
        if asked is None or len(found) >= _MOST_NODES:
            continue
        said = "\n".join(lines[at + 1 : at + 40]).partition("\n$")[0]
        state, reason = _STATE.search(said), _REASON.search(said)
        if state is None:
            continue
        told, user, at_time = reason["reason"] if reason else "", None, None
        inside = _SET.match(told)
        if inside:
            told, user, at_time = inside["reason"], inside["user"], inside["at"]
        found.append(node_view(asked[1], node_state(state[1]), told, user, at_time))
    return tuple(found)


def nodes_of_document(document: object, expand: Expand) -> tuple[NodeView, ...]:
    """The nodes of the JSON of `scontrol show nodes` or `sinfo`; none if it is about something else."""
    found: dict[str, NodeView] = {}
    for record in values.mappings(values.dug(document, "nodes")):
        name = values.text(values.first(record, "name", "hostname"), 255)
        shown = values.first(record, "state", "State")
        if name and shown is not None and len(found) < _MOST_NODES:
            user, at = record.get("reason_set_by_user"), record.get("reason_changed_at")
            found[name] = node_view(name, node_state(_words(shown)), values.text(record.get("reason")), user, at)
    for record in values.mappings(values.dug(document, "sinfo")):
        held = values.mapping(record.get("reason"))
        names = values.dug(record, "nodes", "nodes")
        for name in nodes_of(names, expand)[:_MOST_NODES]:
            found[name] = node_view(
                name,
                node_state(_words(values.dug(record, "node", "state"))),
                values.text(held.get("description")),
                held.get("user"),
                held.get("time"),
            )
    return tuple(found.values())


def node_state(shown: str) -> NodeState:
    """The state that Slurm's or Kubernetes' words for a node mean."""
    words = [word.strip() for word in re.split(r"[+,/ ]", shown.lower()) if word.strip()]
    marks = "".join(word[len(word.rstrip(_MARKS)) :] for word in words)
    plain = [word.rstrip(_MARKS) for word in words]
    if any(word in _PLANNED for word in plain) or any(mark in marks for mark in "~#!%$@^"):
        return NodeState.MAINTENANCE
    if any(word in ("down", "error", "notready") for word in plain):
        return NodeState.DOWN
    if any(word in (*_DRAINED, "schedulingdisabled") for word in plain):
        return NodeState.DRAINED
    if "*" in marks or any(word in _DOWN for word in plain):
        return NodeState.UNKNOWN
    if any(word in _TAKEN for word in plain):
        return NodeState.ALLOCATED
    return NodeState.IDLE if any(word in _IDLE for word in plain) else NodeState.UNKNOWN


def node_view(name: str, state: NodeState, reason: str, user: object, at: object) -> NodeView:
    """A node as attribution is told of it; `user` and `at` are as the scheduler prints them."""
    who = values.text(user, 64).partition("(")[0] or None
    return NodeView(
        name=name,
        state=state,
        reason=values.text(reason, 300),
        set_by=None if not reason else who,
        since=values.moment(at),
    )


_KEYS = {
    "jobid": "job_id", "jobidraw": "job_id", "st": "state", "jobstate": "state", "exitcode": "exit_code",
    "derivedexitcode": "derived_exit_code", "nodelist": "nodes", "nodelist(reason)": "nodes", "submittime": "submit",
    "starttime": "start", "endtime": "end", "preempttime": "preempt_time", "timelimit": "time_limit",
    "time_limit": "time_limit", "restarts": "restart_cnt", "jobname": "name", "userid": "user", "uid": "user_id",
}  # fmt: skip


def _plain(told: Mapping[str, object]) -> dict[str, str]:
    return {key: value for key, value in told.items() if isinstance(value, str)}


def _words(shown: object) -> str:
    return "+".join(values.text(each) for each in shown[:16]) if isinstance(shown, list) else values.text(shown)


def _rows(text: str) -> Iterator[Mapping[str, str]]:
    """The rows of the tables of a text, by the names above them."""
    names: list[str] = []
    starts: list[int] = []
    separator = ""
    for line in text.splitlines()[:_MOST_LINES]:
        if not line.strip() or line.startswith("#") or set(line.strip()) <= set("- +"):
            continue
        if _is_head(line):
            separator = "|" if "|" in line else ""
            names = line.rstrip("|").split("|") if separator else line.split()
            starts = [] if separator else [found.start() for found in re.finditer(r"\S+", line)]
            continue
        if not names:
            continue
        if names[:2] == ["REASON", "USER"]:
            cells = line.rsplit(None, 3)  # a reason may be of several words, the rest are one each
            cells = cells if len(cells) == len(names) and _REASON_AT.fullmatch(cells[2]) else []
        elif separator:
            cells = [cell.strip() for cell in line.split("|")]
        else:
            cells = line.split(None, len(names) - 1)
            cells = cells if len(cells) == len(names) else _by_columns(line, starts)
        if len(cells) >= len(names):
            yield {name.strip(): cell.strip() for name, cell in zip(names, cells, strict=False)}


def _is_head(line: str) -> bool:
    words = {word.upper() for word in re.split(r"[|\s]+", line.strip())}
    about_nodes = bool(words & {"NODELIST", "HOSTNAMES", "NODE", "NODELIST(REASON)"})
    about_jobs = bool(words & {"JOBID", "JOBIDRAW"})
    states = bool(words & {"STATE", "ST", "STATUS", "REASON", "STATELONG", "STATECOMPACT"})
    return (states and (about_nodes or about_jobs)) or ({"NAME", "STATUS", "ROLES"} <= words)


def _by_columns(line: str, starts: list[int]) -> list[str]:
    """The cells of a row with empty ones: by where the names above begin."""
    ends = [*starts[1:], max(len(line), starts[-1] if starts else 0)]
    return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)] if starts else []


def _blocks(text: str, key: str) -> Iterator[Mapping[str, str]]:
    """Blocks of `name=value` that begin with `key=`, of one line or several."""
    block: list[str] = []
    for line in [*text.splitlines()[:_MOST_LINES], f"{key}="]:
        if line.lstrip().startswith(f"{key}="):
            if block:
                yield _pairs(block)
            block = []
        if block or line.lstrip().startswith(f"{key}="):
            block.append(line[:4096])


def _pairs(lines: list[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        said = line.strip()
        if said.startswith(("Reason=", "Comment=", "Command=", "WorkDir=", "StdOut=", "StdErr=", "Extra=")):
            name, _, value = said.partition("=")
            found.setdefault(name, value.strip())
            continue
        for name, value in _PAIR.findall(said):
            found.setdefault(name, value.strip())
    return found
