from __future__ import annotations

import pytest

from relance.sources.templates import job_value, node_in, node_value


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{raw_id}", "17"),
        ("{cluster}/{raw_id}", "alpha/17"),
        ("{{raw_id}}", "{17}"),
        ("{raw_id}-{x} {0} {raw_id.__class__}", "17-{x} {0} {raw_id.__class__}"),
    ],
)
def test_of_a_template_of_jobs_nothing_but_its_names_means_anything(template: str, value: str) -> None:
    assert job_value(template, "alpha", "17") == value


@pytest.mark.parametrize("template", ["{node}", "{node}.example.org", "gpu-{node}", "a{node}a", "{x}{node}"])
def test_a_node_is_read_out_of_the_value_that_names_it(template: str) -> None:
    assert node_in(template, node_value(template, "n1")) == "n1"


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{node}.example.org", "n1.example.com"),
        ("gpu-{node}", "n1"),
        ("a{node}a", "a"),
        ("a{node}a", "aa"),
        ("{node}", ""),
    ],
)
def test_a_value_of_another_make_names_no_node(template: str, value: str) -> None:
    assert node_in(template, value) == ""
