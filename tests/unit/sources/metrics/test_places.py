from __future__ import annotations

import pytest

from relance.rules.metric_queries import Naming
from relance.sources.metrics.places import Places


def place(labels: dict[str, str], *nodes: str, value: str = "{node}", label: str = "") -> tuple[str, str, bool]:
    naming = Naming(node_labels=(label,)) if label else Naming()
    places = Places(naming, value)
    places.know(nodes)
    found = places.place(labels)
    assert found is not None
    return found.node, found.label, found.known


@pytest.mark.parametrize(
    ("labels", "nodes", "expected"),
    [
        ({"Hostname": "n1"}, ("n1", "n2"), ("n1", "Hostname", True)),
        ({"instance": "n1:9400"}, ("n1",), ("n1", "instance", True)),
        ({"instance": "n1.example.org:9400"}, ("n1",), ("n1", "instance", True)),
        ({"instance": "n1:9400"}, ("n1.example.org",), ("n1.example.org", "instance", True)),
        ({"Hostname": "N1"}, ("n1",), ("n1", "Hostname", True)),
        ({"Hostname": "exporter-x7k2p", "node": "n1"}, ("n1",), ("n1", "node", True)),
        ({"instance": "10.0.0.7:9400"}, ("10",), ("10.0.0.7", "instance", False)),
        ({"Hostname": "other"}, ("n1",), ("other", "Hostname", False)),
        ({"instance": "n1:9400"}, ("n1.a", "n1.b"), ("n1", "instance", False)),
    ],
)
def test_a_node_is_known_by_what_its_labels_say(
    labels: dict[str, str], nodes: tuple[str, ...], expected: tuple[str, str, bool]
) -> None:
    assert place(labels, *nodes) == expected


def test_a_template_says_which_part_of_a_label_is_the_node() -> None:
    told = place({"host": "gpu-n7.rack.example.org:9400"}, "n7", value="gpu-{node}.rack.example.org", label="host")
    assert told == ("n7", "host", True)


def test_a_series_without_labels_of_nodes_has_no_place() -> None:
    assert Places(Naming()).place({"job": "dcgm"}) is None
