"""Whether nodes have the same names in logs, metrics and scheduler, and how one is made of the other. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from relance.bootstrap.proofs.rows import Level, Row
from relance.sources.templates import node_in

_PORT = re.compile(r"(?<=[^:]):\d{1,5}\Z")
_SHOWN = 3
NAME = "names of nodes"
_LEAST_SHARE = 0.5
"""A template that fits fewer of the values than that is no suggestion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNames:
    """What names of nodes a source has. `template` is its setting `node_value`; `label` where the names are.

    `wanted` are nodes of the scheduler that the source should tell of now.
    """

    source: str
    label: str
    template: str
    values: frozenset[str]
    wanted: frozenset[str] = frozenset()
    drops_port: bool = False
    """Whether a port behind the name counts for nothing there."""


def names_row(found: NodeNames, scheduler: Collection[str]) -> Row:
    """Whether a source calls the nodes what the scheduler calls them."""
    if not found.values:
        text = f"no value of the label {found.label} was found: nothing here can be laid at a node's door"
        remedy = "have the shipper set the node's name, or name the label that has it in the settings: node_label"
        return Row(source=found.source, name=NAME, level=Level.WARN, read="none", means=text, remedy=remedy)
    by_value = {value: node_of(value, found.template, drops_port=found.drops_port) for value in found.values}
    known = frozenset(node for node in by_value.values() if node in scheduler)
    strange = sorted(value for value, node in by_value.items() if node not in scheduler)
    read = f"{len(found.values) - len(strange)} of {len(found.values)} names are the scheduler's"
    if strange:
        read += f"; not {_some(strange)}"
    if not scheduler:
        text, remedy = "what the scheduler calls its nodes is not known", "see that the scheduler can be asked"
        return Row(source=found.source, name=NAME, level=Level.WARN, read=read, means=text, remedy=remedy)
    if not known:
        return _all_strange(found, scheduler, read)
    silent = sorted(found.wanted - known)
    if silent:
        text = f"nothing comes from {_some(silent)}, where there should be something"
        remedy = "see that the shipper or exporter runs there, and that it gives the name as elsewhere"
        return Row(source=found.source, name=NAME, level=Level.WARN, read=read, means=text, remedy=remedy)
    text = "names of nodes are the same here and in the scheduler"
    if strange:
        text += "; other hosts are nodes of no job here, and are left out"
    return Row(source=found.source, name=NAME, level=Level.OK, read=read, means=text)


def node_of(value: str, template: str, *, drops_port: bool = False) -> str:
    """The node that a value names by a template; empty where it does not fit."""
    return node_in(template, _PORT.sub("", value) if drops_port else value)


def template_for(values: Iterable[str], names: Collection[str], *, word: str = "node") -> str:
    """How most values are made of names, such as `{node}.example.org`; empty where that cannot be told.

    A name counts only where it is not a part of a longer word: `n1` is not in `n10`.
    """
    every = list(values)
    found: Counter[str] = Counter()
    for value in every:
        found.update({made for name in _within(value, names) if (made := _template(value, name, word))})
    if not found:
        return ""
    template, count = max(found.items(), key=lambda item: (item[1], -len(item[0])))
    return template if count >= _LEAST_SHARE * len(every) else ""


def _within(value: str, names: Collection[str]) -> Iterable[str]:
    """The names that may be in a value: its words, and whole runs of them, so that not every name is tried on it."""
    words = re.findall(r"[A-Za-z0-9]+|[^A-Za-z0-9]+", value)[:16]
    runs = {"".join(words[start:end]) for start in range(len(words)) for end in range(start + 1, len(words) + 1)}
    return (run for run in runs if run in names)


def _template(value: str, name: str, word: str) -> str:
    if "{" in value or "}" in value:
        return ""
    before, _, after = value.partition(name)
    return f"{before}{{{word}}}{after}"


def _all_strange(found: NodeNames, scheduler: Collection[str], read: str) -> Row:
    values = [_PORT.sub("", value) for value in found.values] if found.drops_port else list(found.values)
    text = f"no name in the label {found.label} is one of the scheduler's, such as {_some(sorted(scheduler)[:1])}"
    template = template_for(values, scheduler)
    if template:
        remedy = f'set node_value: "{template}" for this source'
    elif template_for([value.lower() for value in values], {each.lower() for each in scheduler}):
        remedy = "names differ in upper and lower case alone: have the shipper write them as the scheduler does"
    elif short := template_for([each.partition(".")[0] for each in scheduler], values):
        remedy = f"the scheduler has long names and this source has short ones ({short}): have it give the long ones"
    else:
        remedy = f"set node_label to the label that has the scheduler's names; {found.label} does not"
    return Row(source=found.source, name=NAME, level=Level.BAD, read=read, means=text, remedy=remedy)


def _some(names: Collection[str]) -> str:
    ordered = list(names)
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return ", ".join(ordered[:_SHOWN]) + more
