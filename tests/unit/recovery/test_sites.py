"""The site's rules for a cluster."""

from __future__ import annotations

from relance.recovery.sites import ClusterRules


def test_a_job_that_names_several_partitions_is_opted_in_where_each_of_them_is() -> None:
    rules = ClusterRules(cluster="alpha", opted_in=frozenset({"gpu", "debug"}))
    assert rules.covers("gpu,debug")
    assert not rules.covers("gpu,long")
    assert not rules.covers("")
