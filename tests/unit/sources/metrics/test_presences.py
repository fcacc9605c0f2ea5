"""Which nodes are taken to have gone silent, and which series are taken to be a node's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from relance.rules.loading import load_pack
from relance.rules.metric_queries import ASK_LABEL, Naming
from relance.rules.pack import read_texts
from relance.sources.metrics.clients import Vector
from relance.sources.metrics.places import Places
from relance.sources.metrics.presences import Presence

RULES = {rule.id: rule for rule in load_pack({"metrics.yaml": read_texts()["metrics.yaml"]}).metrics}
NODES = tuple(f"n{number}" for number in range(40))
BEGIN, EVERY_S = 1_767_261_600.0, 30.0


class Store:
    """The presence of nodes by two exporters, looked at again and again."""

    def __init__(self, nodes: Iterable[str] = NODES) -> None:
        self.nodes = tuple(nodes)
        self.places = Places(Naming())
        self.places.know(self.nodes)
        self.gpus, self.hosts = Presence(RULES["metric-telemetry-gone"]), Presence(RULES["metric-node-gone"])
        for each in (self.gpus, self.hosts):
            each.names = each.rule.series[:1]
        self.now = BEGIN
        self._last: dict[tuple[int, str], float] = {}

    def look(self, for_s: float, *, no_gpus: Iterable[str] = (), no_hosts: Iterable[str] = ()) -> set[str]:
        """Look for so long while exporters on these nodes are down; gives who is ever said to be gone."""
        told: set[str] = set()
        end = self.now + for_s
        while self.now < end:
            self.now += EVERY_S
            for each, port, down in ((self.gpus, 9400, set(no_gpus)), (self.hosts, 9100, set(no_hosts))):
                self._last |= {(port, node): self.now for node in self.nodes if node not in down}
                rows = [
                    ({"instance": f"{node}:{port}", ASK_LABEL: "at"}, self._last[port, node]) for node in self.nodes
                    if (port, node) in self._last
                ]  # fmt: skip
                each.take(answer(rows, self.now), self.places, self.now)
            for each in (self.gpus, self.hosts):
                told |= set(each.gone(self.nodes, self.now, (self.gpus, self.hosts)).nodes)
        return told


def answer(rows: list[tuple[dict[str, str], float]], at: float) -> Vector:
    return Vector(labels=[labels for labels, _ in rows], values=[value for _, value in rows], at=at)


@pytest.fixture
def store() -> Store:
    made = Store()
    assert made.look(300.0) == set()
    return made


def test_a_node_whose_every_metric_ends_is_gone(store: Store) -> None:
    assert store.look(300.0, no_gpus=["n7"], no_hosts=["n7"]) == {"n7"}


@pytest.mark.parametrize("down", [{"no_gpus": ["n7"]}, {"no_hosts": ["n7"]}])
def test_an_exporter_that_is_down_on_a_node_that_others_tell_of_is_no_node_gone(
    store: Store, down: Mapping[str, list[str]]
) -> None:
    assert store.look(1800.0, **down) == set()


def test_where_only_one_exporter_is_known_it_speaks_for_its_node(store: Store) -> None:
    store.hosts.names = ()

    assert store.look(300.0, no_gpus=["n7"]) == {"n7"}


@pytest.mark.parametrize("count", [5, 13, 21, 40])
def test_agents_that_are_restarted_on_many_nodes_are_no_nodes_gone(store: Store, count: int) -> None:
    assert store.look(600.0, no_gpus=NODES[:count], no_hosts=NODES[:count]) == set()
    assert store.look(300.0) == set()


def test_agents_that_are_restarted_one_after_another_are_soon_known_to_be(store: Store) -> None:
    told = set()
    for node in NODES:
        told |= store.look(240.0, no_gpus=[node], no_hosts=[node])

    assert told <= set(NODES[:4])


def test_after_a_while_without_restarts_a_node_may_be_gone_again(store: Store) -> None:
    store.look(300.0, no_gpus=NODES[:10], no_hosts=NODES[:10])
    store.look(2400.0)

    assert store.look(300.0, no_gpus=["n7"], no_hosts=["n7"]) == {"n7"}


def look_at_double(store: Store, other: str, *, looks: int = 6, goes_on: bool = True) -> None:
    """A second machine named n1 in the store, by an address of its own."""
    for number in range(looks):
        store.now += EVERY_S
        rows = [({"Hostname": "n1", "instance": "10.1.0.1:9400", ASK_LABEL: "at"}, store.now)]
        at = store.now if goes_on or number < 1 else BEGIN
        rows += [({"Hostname": "n1", "instance": other, ASK_LABEL: "at"}, at)]
        rows += [({"Hostname": "n2", "instance": "10.1.0.2:9400", ASK_LABEL: "at"}, store.now)]
        store.gpus.take(answer(rows, store.now), store.places, store.now)


def test_series_of_two_machines_of_one_name_are_nobodys() -> None:
    store = Store()
    look_at_double(store, "10.2.0.1:9400")

    assert store.places.place({"Hostname": "n1", "instance": "10.1.0.1:9400", "gpu": "0"}) is None
    assert store.places.place({"Hostname": "n2", "instance": "10.1.0.2:9400"}) is not None
    assert not store.gpus.is_there("n1", store.now)


def test_machines_of_two_clusters_that_differ_in_their_domain_alone_are_told_apart_by_nothing() -> None:
    store = Store()
    for _ in range(6):
        store.now += EVERY_S
        rows = [({"instance": f"n1.{site}.example.org:9100", ASK_LABEL: "at"}, store.now) for site in ("one", "two")]
        store.hosts.take(answer(rows, store.now), store.places, store.now)

    assert store.places.place({"instance": "n1.one.example.org:9100"}) is None


@pytest.mark.parametrize("other", ["10.1.0.9:9400", "10.1.0.1:9500"])
def test_an_exporter_that_moved_or_a_second_kind_of_it_is_no_second_machine(other: str) -> None:
    store = Store()
    look_at_double(store, other, goes_on=other.endswith("9500"))

    found = store.places.place({"Hostname": "n1", "instance": "10.1.0.1:9400"})
    assert found is not None
    assert found.node == "n1"
