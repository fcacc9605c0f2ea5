"""Whatever outside providers say: the remedy is the one that we found alone, but for a node that we suspect, too."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from relance.attribution import attribute
from relance.attribution.opinions import with_opinions
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.verdicts import CaseFile, Opinion, Strength, Suspect, Verdict
from relance.policy import decide
from tests.properties.test_attribution_properties import cases
from tests.unit.attribution.cases import NODES, at
from tests.unit.policy.questions import at as policy_at
from tests.unit.policy.questions import question, with_

OPINIONS = st.lists(
    st.builds(
        Opinion,
        provider=st.sampled_from(["a", "b", "c"]),
        at=st.integers(0, 400).map(at),
        domain=st.sampled_from(FaultDomain),
        cause=st.text(max_size=8),
        remedy=st.one_of(st.none(), st.sampled_from(Remedy)),
        suspects=st.lists(st.sampled_from([*NODES, "n9", "x" * 253, ""]), max_size=6).map(tuple),
        confidence=st.one_of(st.none(), st.floats(0, 1)),
        text=st.text(max_size=20),
        late=st.booleans(),
        effect=st.sampled_from(["", "agrees"]),
    ),
    max_size=5,
).map(tuple)


def _is_as_alone(alone: Verdict, verdict: Verdict) -> None:
    if verdict.remedy is not alone.remedy:
        assert (alone.remedy, verdict.remedy) == (Remedy.RESTART, Remedy.RESTART_EXCLUDING)
        named = {node for item in verdict.opinions if not item.late for node in item.suspects}
        assert any(suspect.strength is Strength.WEAK and suspect.node in named for suspect in alone.suspects)
    assert [(item.node, item.strength) for item in verdict.suspects] == [
        (item.node, item.strength) for item in alone.suspects
    ]
    unchanged = (
        "domain", "cause", "summary", "fingerprint", "evidence", "gaps", "proven_death", "proof", "proof_at",
        "restart_limit_without_progress", "last_root_at", "in_job_restart_at",
    )  # fmt: skip
    assert all(getattr(verdict, name) == getattr(alone, name) for name in unchanged)
    assert alone.confidence <= verdict.confidence <= min(1.0, alone.confidence + 0.25)


@given(cases(), OPINIONS)
def test_the_verdict_stays_ours(case: CaseFile, opinions: tuple[Opinion, ...]) -> None:
    alone = attribute(case)
    verdict = with_opinions(alone, opinions)
    _is_as_alone(alone, verdict)
    assert with_opinions(alone, tuple(reversed(verdict.opinions))).remedy is verdict.remedy
    if all(item.late for item in opinions):
        assert replace(verdict, opinions=()) == alone


@given(
    OPINIONS,
    st.sampled_from(Remedy),
    st.lists(st.sampled_from(["n1", "n2", "n3", "n4"]), unique=True, max_size=3),
    st.sampled_from(Strength),
)
def test_the_advice_is_the_one_without_them_but_for_nodes_that_we_suspect(
    opinions: tuple[Opinion, ...], remedy: Remedy, nodes: list[str], strength: Strength
) -> None:
    suspects = tuple(Suspect(node=node, strength=strength, reason="seen") for node in nodes)
    alone = replace(question().verdict, remedy=remedy, suspects=suspects)
    verdict = with_opinions(alone, tuple(replace(item, at=policy_at(3690)) for item in opinions))
    before, after = decide(with_(question(), verdict=alone)), decide(with_(question(), verdict=verdict))
    assert set(after.exclude) <= set(nodes)
    if before.action is not after.action:
        assert (before.action, after.action) == (Remedy.RESTART, Remedy.RESTART_EXCLUDING)
    assert (before.hold, before.ends_running, before.cancels_running) == (
        after.hold,
        after.ends_running,
        after.cancels_running,
    )
