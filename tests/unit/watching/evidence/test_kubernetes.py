from __future__ import annotations

import json

import pytest

from relance.watching.evidence.kubernetes import pods_in, told_by_json, told_by_yaml
from relance.watching.evidence.values import DocumentError

EVENT: dict[str, object] = {
    "kind": "Event",
    "type": "Warning",
    "reason": "UnexpectedAdmissionError",
    "message": "Allocate failed",
    "involvedObject": {"kind": "Pod", "name": "w-1"},
    "source": {"component": "kubelet", "host": "n7"},
    "firstTimestamp": "2026-02-13T08:00:02Z",
    "lastTimestamp": "2026-02-13T09:00:02Z",
}
POD: dict[str, object] = {
    "kind": "Pod",
    "metadata": {"name": "w-2"},
    "spec": {"nodeName": "n8"},
    "status": {
        "containerStatuses": [
            {
                "name": "train",
                "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-02-13T08:01:00Z"}},
            },
            {"name": "side", "state": {"terminated": {"reason": "Completed", "exitCode": 0}}},
        ],
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
        ],
    },
}
NODE: dict[str, object] = {
    "kind": "Node",
    "metadata": {"name": "n9"},
    "status": {
        "conditions": [
            {
                "type": "Ready",
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            },
            {"type": "MemoryPressure", "status": "False"},
        ]
    },
}


def told(*objects: dict[str, object], indent: int | None = 1) -> list[tuple[int, str, str | None]]:
    document = {"apiVersion": "v1", "items": list(objects), "kind": "List"}
    data = json.dumps(document, indent=indent).encode()
    found = told_by_json(data, document)
    assert found is not None
    return [(line.line, line.text, line.node) for line in found.lines]


def test_an_event_becomes_a_line_where_its_message_stands() -> None:
    ((line, text, node),) = told(EVENT)
    assert text == "2026-02-13T08:00:02Z Warning UnexpectedAdmissionError pod/w-1 Allocate failed"
    assert node == "n7", "its kubelet told it"
    data = json.dumps({"apiVersion": "v1", "items": [EVENT], "kind": "List"}, indent=1).splitlines()
    assert '"message"' in data[line - 1]


def test_events_on_one_line_are_all_read() -> None:
    assert [line for line, _, _ in told(EVENT, EVENT, indent=None)] == [1, 1]


def test_states_of_pods_and_nodes_are_told_where_something_is_wrong() -> None:
    texts = [text for _, text, _ in told(POD, NODE)]
    assert texts == [
        (
            "2026-02-13T08:01:00Z Warning OOMKilled pod/w-2 container train "
            "State: Terminated Reason: OOMKilled Exit Code: 137"
        ),
        "Warning DisruptionTarget pod/w-2 DeletionByTaintManager",
        "Warning NodeNotReady node/n9 Ready=Unknown NodeStatusUnknown Kubelet stopped posting node status.",
    ]


def test_a_pod_is_known_to_be_on_its_node() -> None:
    document = {"items": [POD], "kind": "PodList"}
    found = told_by_json(json.dumps(document).encode(), document)
    assert found is not None
    assert found.pods == {"w-2": "n8"}


def test_other_json_is_not_of_kubernetes() -> None:
    others: tuple[object, ...] = ({"jobs": []}, {"items": [{"sku": 1}]}, [1, 2], "text")
    for document in others:
        assert told_by_json(json.dumps(document).encode(), document) is None


def test_yaml_is_read_with_places() -> None:
    text = (
        "apiVersion: v1\n"
        "items:\n"
        "- kind: Event\n"
        "  reason: BackOff\n"
        "  type: Warning\n"
        "  message: again\n"
        "  involvedObject: {kind: Pod, name: w-3}\n"
    )
    (line,) = told_by_yaml(text.encode()).lines
    assert (line.line, line.text) == (6, "Warning BackOff pod/w-3 again")


@pytest.mark.parametrize("text", ["[" * 5000, "a: b: c", "{", "&a [*a"])
def test_broken_yaml_is_said(text: str) -> None:
    with pytest.raises(DocumentError):
        told_by_yaml(text.encode())


def test_text_says_where_pods_are() -> None:
    text = (
        b"2026-02-13T08:00:01Z Normal Scheduled pod/w-1 Successfully assigned ml/w-1 to n1\n"
        b"Name:         w-2\nNamespace:    ml\nNode:         n2/10.0.0.2\n"
        b"NAME   READY   STATUS    RESTARTS   AGE   IP   NODE   NOMINATED NODE   READINESS GATES\n"
        b"w-3    1/1     Running   2 (3m ago)   9m    10.0.0.3   n3   <none>   <none>\n"
        b"w-4    0/1     Pending   0   9m    <none>   <none>   <none>   <none>\n"
    )
    assert pods_in([text]) == {"w-1": "n1", "w-2": "n2", "w-3": "n3"}


def test_a_pod_that_was_evicted_was_on_the_only_node_that_was_short() -> None:
    short = b"Warning EvictionThresholdMet node/n1 Attempting to reclaim\n"
    gone = b"Normal NodeNotReady node/n2 Kubelet stopped posting node status.\n"
    pods = (
        b"Warning Evicted pod/w-1 The node was low on resource\n"
        b"Normal TaintManagerEviction pod/w-2 Marking for deletion\n"
    )
    assert pods_in([short + gone + pods]) == {"w-1": "n1", "w-2": "n2"}
    assert pods_in([short, short.replace(b"n1", b"n3"), pods]) == {}


@pytest.mark.parametrize("cut", range(1, 90, 7))
def test_where_a_piece_ends_makes_no_other_node_of_a_pod(cut: int) -> None:
    text = (
        b"1m Warning EvictionThresholdMet node/gpu-17 short of memory\n"
        b"1m Warning Evicted pod/w-1 The node was low on resource: memory."
    )
    assert pods_in([text[:cut], text[cut:]]) == {"w-1": "gpu-17"}


def test_lines_below_a_table_of_pods_are_no_pods() -> None:
    table = b"NAME READY STATUS RESTARTS AGE IP NODE\nw-1 1/1 Running 0 5m 192.0.2.1 n1\n"
    text = b"\n2m Warning BackOff pod/w-1 Back-off restarting failed container\n"
    assert pods_in([table + text]) == {"w-1": "n1"}
