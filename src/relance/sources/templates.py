"""Templates: how a site's labels name jobs and nodes, such as `{node}.example.org`.

Names are put in as they are and nothing else of a template means anything, whatever braces it has.
"""

from __future__ import annotations

_NODE = "{node}"


def job_value(template: str, cluster: str, raw_id: str) -> str:
    """The value by which a label names a job."""
    return template.replace("{raw_id}", raw_id).replace("{cluster}", cluster)


def node_value(template: str, node: str) -> str:
    """The value by which a label names a node."""
    return template.replace(_NODE, node)


def node_in(template: str, value: str) -> str:
    """The node that a value names; empty where it is not made by the template."""
    before, _, after = template.partition(_NODE)
    if not value.startswith(before) or not value.endswith(after):
        return ""
    return value[len(before) : len(value) - len(after)]
