"""Kubernetes' objects as lines of text, each at its place: events, pods, nodes, and the conditions of others.

A line reads like one of `kubectl get events` with its time before it, so that the same rules serve for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from relance.watching.evidence import values

MOST_OBJECTS = 20_000
MOST_YAML_BYTES = 2 * 1024 * 1024
"""YAML takes many times longer to read than JSON."""
_TIMES = ("firstTimestamp", "eventTime", "deprecatedFirstTimestamp", "lastTimestamp", "deprecatedLastTimestamp")
_ASSIGNED = re.compile(rb"[Ss]uccessfully assigned (?:[\w.-]+/)?([\w.-]+) to ([\w.-]+)")
_DESCRIBED_NAME = re.compile(rb"^Name:\s+([\w.-]+)\s*$")
_DESCRIBED_NODE = re.compile(rb"^Node:\s+([\w.-]+)(?:/[\d.:a-f]+)?\s*$")
_WIDE_HEAD = re.compile(rb"^(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE\s+IP\s+NODE\b")
_MOST_PODS = 100_000
_LONGEST_LINE = 4096
_EVENT_OF_PLACE = re.compile(
    rb"\b(?:(?:EvictionThresholdMet|NodeHas(?:Disk|Memory|PID)Pressure)\s+node/(?P<short>[\w.-]+)"
    rb"|NodeNotReady\s+node/(?P<silent>[\w.-]+)"
    rb"|Evicted\s+pod/(?P<evicted>[\w.-]+)"
    rb"|(?:TaintManagerEviction|NodeControllerEviction|DeletingPod)\s+pod/(?P<taken>[\w.-]+))"
)
_PLACING = (b"ssigned ", b"Node:", b"READY", b"Evict", b"NotReady", b"DeletingPod")
"""Without any of these a piece of text says of no pod where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """One thing that Kubernetes tells. `line` is its place in the file, from 1; `node` is whose kubelet told it."""

    line: int
    text: str
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a document of Kubernetes tells. `pods` has the node of each pod that is known to be placed."""

    lines: tuple[EventLine, ...] = ()
    pods: Mapping[str, str] | None = None


def told_by_json(data: bytes, document: object) -> Told | None:
    """What a JSON document tells; None if it is not of Kubernetes."""
    kind = values.text(values.dug(document, "kind"))
    if kind.endswith("List") or (isinstance(document, Mapping) and "items" in document) or isinstance(document, list):
        found = values.placed(data, "items")
    elif kind and values.dug(document, "metadata") is not None:
        found = [(1, document)]
    else:
        return None
    objects = [(line, values.mapping(each)) for line, each in (found or [])[:MOST_OBJECTS]]
    if not any("kind" in each or _is_event(each) for _, each in objects):
        return None if objects or not kind else Told()
    return _told(objects)


def told_by_yaml(data: bytes) -> Told:
    """What YAML documents tell, with all values as texts. Raises DocumentError."""
    if len(data) > MOST_YAML_BYTES:
        message = f"YAML longer than {MOST_YAML_BYTES // (1024 * 1024)} MiB"
        raise values.DocumentError(message)
    loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
    objects: list[tuple[int, Mapping[str, object]]] = []
    try:
        for root in yaml.compose_all(data.decode("utf-8-sig", "replace"), loader):
            for node in _items_of(root):
                if len(objects) < MOST_OBJECTS:
                    value = yaml.constructor.BaseConstructor().construct_document(node)
                    objects.append((_line_of(node), values.mapping(value)))
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        message = f"no whole YAML: {' '.join(str(error).split())[:120]}"
        raise values.DocumentError(message) from None
    return _told(objects)


def pods_in(chunks: Iterable[bytes]) -> dict[str, str]:
    """Which pod is on which node, as lines of events, of `kubectl describe` and of `kubectl get pods -o wide` say.

    A pod that was evicted was on the node that was short, and one that was taken away on the node that went silent, if
    only one was.
    """
    found = _Placing()
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        whole = data.rfind(b"\n") + 1
        data, rest = data[:whole], data[whole:][-_LONGEST_LINE:]
        if found.columns or any(mark in data for mark in _PLACING):
            for line in data.splitlines():
                found.take(line)
    found.take(rest)
    return found.pods_with_inferred()


@dataclass(slots=True)
class _Placing:
    """Where pods are, in the making."""

    pods: dict[str, str] = field(default_factory=dict)
    columns: int = 0
    name: bytes | None = None
    short: set[bytes] = field(default_factory=set)
    silent: set[bytes] = field(default_factory=set)
    evicted: set[bytes] = field(default_factory=set)
    taken: set[bytes] = field(default_factory=set)

    def take(self, line: bytes) -> None:
        """One line more."""
        if len(self.pods) >= _MOST_PODS:
            return
        if found := _ASSIGNED.search(line):
            self.pods[found[1].decode()] = found[2].decode()
        elif found := _EVENT_OF_PLACE.search(line):
            sets = {"short": self.short, "silent": self.silent, "evicted": self.evicted, "taken": self.taken}
            sets[found.lastgroup or "short"].add(found[found.lastgroup or 0])
        elif found := _DESCRIBED_NAME.match(line):
            self.name = found[1]
        elif (found := _DESCRIBED_NODE.match(line)) and self.name is not None:
            self.pods[self.name.decode()] = found[1].decode()
        elif found := _WIDE_HEAD.match(line):
            self.columns = len(line[: found.end()].split())
        elif not line.strip():
            self.columns = 0
        elif self.columns:
            cells = re.sub(rb"\s+\([^)]*ago\)", b"", line).split()
            if len(cells) >= self.columns and cells[self.columns - 1] != b"<none>":
                self.pods[cells[self.columns - 7].decode("latin-1")] = cells[self.columns - 1].decode("latin-1")

    def pods_with_inferred(self) -> dict[str, str]:
        """The pods' nodes, those with them that can only be on one."""
        for pods, nodes in ((self.evicted, self.short), (self.taken, self.silent)):
            if len(nodes) == 1:
                (node,) = nodes
                for pod in sorted(pods):
                    self.pods.setdefault(pod.decode(), node.decode())
        return self.pods


def _told(objects: Iterable[tuple[int, Mapping[str, object]]]) -> Told:
    lines: list[EventLine] = []
    pods: dict[str, str] = {}
    for line, record in objects:
        if _is_event(record):
            lines.append(_event(line, record))
            continue
        name = values.text(values.dug(record, "metadata", "name"), 253)
        kind = values.text(record.get("kind"), 80)
        node = values.text(values.dug(record, "spec", "nodeName"), 253)
        if kind == "Pod" and node:
            pods[name] = node
        lines += [EventLine(line=line, text=text, node=node or None) for text in _statements(kind, name, record)]
    for each in lines:
        found = _ASSIGNED.search(each.text.encode())
        if found:
            pods[found[1].decode()] = found[2].decode()
    return Told(lines=tuple(lines), pods=pods)


def _is_event(record: Mapping[str, object]) -> bool:
    about = record.get("involvedObject") or record.get("regarding")
    return isinstance(about, Mapping) or values.text(record.get("kind")) == "Event"


def _event(line: int, record: Mapping[str, object]) -> EventLine:
    about = values.mapping(record.get("involvedObject") or record.get("regarding"))
    at = values.first(record, *_TIMES) or values.dug(record, "metadata", "creationTimestamp")
    kind, name = values.text(about.get("kind"), 80).lower(), values.text(about.get("name"), 253)
    source = values.mapping(record.get("source") or record.get("deprecatedSource"))
    by = values.text(source.get("component")) or values.text(record.get("reportingComponent"))
    host = values.text(source.get("host"), 253) or values.text(record.get("reportingInstance"), 253)
    words = (
        values.text(at, 40),
        values.text(record.get("type"), 20) or "Normal",
        values.text(record.get("reason"), 120) or "-",
        f"{kind}/{name}",
        values.text(record.get("message") or record.get("note"), 2000),
    )
    node = name if kind == "node" else host if by == "kubelet" else None
    return EventLine(line=line, text=" ".join(word for word in words if word), node=node or None)


def _statements(kind: str, name: str, record: Mapping[str, object]) -> Iterator[str]:
    """What the status of an object says, where it says that something is wrong."""
    status = values.mapping(record.get("status"))
    called = f"{kind.lower()}/{name}"
    if kind == "Pod":
        yield from _of_pod(called, status)
        deleted = values.text(values.dug(record, "metadata", "deletionTimestamp"), 40)
        if deleted:
            phase = values.text(status.get("phase"))
            yield f"{deleted} Normal Terminating {called} deletionTimestamp is set, phase={phase}"
    for condition in values.mappings(status.get("conditions")):
        said = _condition(kind, called, condition)
        if said:
            yield said


def _of_pod(called: str, status: Mapping[str, object]) -> Iterator[str]:
    reason, message = values.text(status.get("reason"), 120), values.text(status.get("message"))
    if reason:
        yield f"Warning {reason} {called} {message}".rstrip()
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in values.mappings(status.get(key)):
            name = values.text(container.get("name"), 120)
            for state in (container.get("lastState"), container.get("state")):
                yield from _of_container(called, name, values.mapping(state))


def _of_container(called: str, name: str, state: Mapping[str, object]) -> Iterator[str]:
    ended, waiting = values.mapping(state.get("terminated")), values.mapping(state.get("waiting"))
    if ended and values.number(ended.get("exitCode")) != 0:
        reason, code = values.text(ended.get("reason"), 120) or "Error", values.number(ended.get("exitCode"))
        at, message = values.text(ended.get("finishedAt"), 40), values.text(ended.get("message"))
        said = f"{at} Warning {reason} {called} container {name} State: Terminated Reason: {reason} Exit Code: {code}"
        yield f"{said} {message}".strip()
    if waiting.get("reason") and values.text(waiting.get("reason")) not in ("ContainerCreating", "PodInitializing"):
        reason, message = values.text(waiting.get("reason"), 120), values.text(waiting.get("message"))
        yield f"Warning {reason} {called} container {name} State: Waiting Reason: {reason} {message}".rstrip()


def _condition(kind: str, called: str, condition: Mapping[str, object]) -> str:
    """A condition as a line; empty where it says that all is well."""
    about, shown = values.text(condition.get("type"), 120), values.text(condition.get("status"), 20)
    reason, message = values.text(condition.get("reason"), 120), values.text(condition.get("message"))
    at = values.text(condition.get("lastTransitionTime"), 40)
    holds = (condition.get("status") or "") in ("True", True)
    if kind == "Node":
        if about == "Ready" and not holds:
            said = values.text(condition.get("status")) or "Unknown"
            return f"{at} Warning NodeNotReady {called} Ready={said} {reason} {message}".strip()
        bad = holds and about != "Ready"
        return f"{at} Warning {about} {called} {about}={shown} {reason} {message}".strip() if bad else ""
    if kind == "Pod":
        return (
            f"{at} Warning {about} {called} {reason} {message}".strip() if holds and about == "DisruptionTarget" else ""
        )
    usual = about in (
        "Complete",
        "Completed",
        "SuccessCriteriaMet",
        "QuotaReserved",
        "Admitted",
        "PodsReady",
        "Created",
    )
    return f"{at} Normal {about} {called} {reason}: {message}".strip(" :") if holds and not usual else ""


def _items_of(root: yaml.Node | None) -> list[yaml.Node]:
    if not isinstance(root, yaml.MappingNode):
        return list(root.value) if isinstance(root, yaml.SequenceNode) else []
    for key, value in root.value:
        if key.value == "items" and isinstance(value, yaml.SequenceNode):
            return list(value.value)
    return [root]


def _line_of(node: yaml.Node) -> int:
    """The line of an object's message, else the one on which it begins, from 1."""
    if isinstance(node, yaml.MappingNode):
        for key, _ in node.value:
            if key.value in ("message", "note"):
                return int(key.start_mark.line) + 1
    return int(node.start_mark.line) + 1
