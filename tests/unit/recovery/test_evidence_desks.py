"""Outputs of a site's command: read where they are traces of a known kind, kept and told of whatever they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain.advice import Command, Effect
from relance.domain.collecting import Collected, EvidenceReport
from relance.domain.observations import Attachment
from relance.domain.streams import Stream
from relance.recovery.backends import LocalBackend
from relance.recovery.evidence_outputs import read_outputs
from relance.rules.formats import DerivedRule
from relance.testing import history_values as values
from relance.testing.backend_contract_evidence import STACKS
from tests.served.worlds import ASKING, World, trace_rules, world
from tests.unit.traces.test_ras import mismatch
from tests.unit.traces.worlds import Fault, Run


def read(data: bytes, errors: bytes = b"") -> tuple[list[tuple[str, int | None, str]], tuple[str, ...]]:
    pieces = [Attachment(file="evidence 1: output", start_offset=0, data=data)]
    pieces += [Attachment(file="evidence 1: errors", start_offset=0, data=errors)] if errors else []
    hits, notes = read_outputs(pieces, trace_rules, values.NOON)
    return [(hit.symptom, hit.rank, hit.file) for hit in hits], notes


def test_stacks_name_the_rank_that_stands_elsewhere() -> None:
    hits, notes = read(STACKS, b"srun: a warning\n")
    assert hits == [("stack_minority", 5, "evidence 1: output")]
    assert notes[0].startswith("Rank 5 is loading data")


def test_an_answer_of_nccl_ras_says_that_ranks_are_behind() -> None:
    hits, _ = read(mismatch().encode())
    assert [symptom for symptom, _, _ in hits] == ["ras_skew"]


def test_dumps_of_many_ranks_come_in_one_output_with_a_line_of_its_name_before_each() -> None:
    files = Run(Fault(stops={3: 10})).files(form="json")
    data = b"\n".join(b"==> /tmp/%s <==\n%s" % (file.name.encode(), file.data) for file in files)
    hits, _ = read(data)
    assert hits[0][:2] == ("fr_idle_rank", 3)
    assert hits[0][2].startswith("evidence 1: output/")


@pytest.mark.parametrize("data", [b"", b"nothing of interest\n", bytes(range(256)) * 100, b"==> x <==\n", b"[" * 5000])
def test_what_is_no_trace_gives_no_hit_and_stops_nothing(data: bytes) -> None:
    hits, notes = read(data)
    assert hits == []
    assert len(notes) == 1


def test_what_cannot_be_read_of_some_files_is_said_beside_what_can() -> None:
    broken = b'{"pg_config": {}, "entries": [{"collective_seq_id": 1'
    hits, notes = read(b"==> a.json <==\n" + broken + b"\n==> stacks.txt <==\n" + STACKS)
    assert hits == [("stack_minority", 5, "evidence 1: output/stacks.txt")]
    assert any(note.startswith("evidence 1: output/a.json cannot be used: ") for note in notes)


def test_secrets_in_what_a_trace_says_are_masked() -> None:
    stacks = STACKS.replace(b"read_block", b"token=abcdefgh123456")
    _, notes = read(stacks)
    assert not any("abcdefgh123456" in note for note in notes)


EFFECT = Effect(
    summary="job 17: the site's command for evidence, 20 s at most",
    commands=(Command(argv=("srun", "--overlap", "--jobid=17", "relance-stacks")),),
    digest="evidence-1",
)
ATTEMPT = values.attempt_key("17")


def report(**fields: object) -> EvidenceReport:
    plain = EvidenceReport(
        key="ev-1", incident_id=ASKING, finding_id="fnd-1", attempt=ATTEMPT, at=values.after(31),
        collected=Collected(exit_code=0, stdout=STACKS, stderr=b"srun: a warning\n", took_s=2.5),
    )  # fmt: skip
    return replace(plain, **fields)  # type: ignore[arg-type] # a report's own fields


async def begun() -> World:
    """A world in which the command was shown and begun for job 17."""
    made = await world()
    await made.backend.record_evidence(report(collected=None, shown=EFFECT, switched_on=True))
    started = e.EvidenceStarted(
        incident_id=ASKING, key="ev-1", attempt=ATTEMPT, effect=EFFECT, holder="controller-1", lease_epoch=1,
        at=values.after(31),
    )  # fmt: skip
    await made.append(Stream.of_job(ATTEMPT.job), started)
    return made


async def test_the_story_of_the_incident_tells_what_was_shown_run_and_found() -> None:
    made = await begun()
    await made.backend.record_evidence(report())
    story = await made.parts.queries().incident_story(ASKING)
    told = [entry for entry in story.entries if "vidence" in entry.event]
    assert [entry.event for entry in told] == ["EvidencePrepared", "EvidenceStarted", "EvidenceCollected"]
    assert told[0].commands == told[1].commands == ("srun --overlap --jobid=17 relance-stacks",)
    assert told[1].who == "controller-1"
    assert told[2].title == "Evidence collected"
    assert "in 2.5 s; Rank 5 is loading data" in told[2].detail
    assert [quote.rank for quote in told[2].quotes] == [5]
    (note,) = [note for note in (await made.parts.queries().job_story("17")).notes if "evidence" in note]
    assert note.startswith("evidence of the hang, collected at 12:00:31 UTC: Rank 5 is loading data")


async def test_both_outputs_are_kept_as_attachments_of_the_attempt() -> None:
    made = await begun()
    await made.backend.record_evidence(report())
    kept = await made.history.kept_logs(ATTEMPT.job)
    assert [(item.file, item.attempt) for item in kept] == [
        ("evidence 1: output", ATTEMPT), ("evidence 1: errors", ATTEMPT),
    ]  # fmt: skip
    assert await made.history.kept_bytes(kept[0].digest) == STACKS
    story = await made.parts.queries().incident_story(ASKING)
    assert kept[0].digest in next(entry.detail for entry in story.entries if entry.event == "AttachmentKept")


@pytest.mark.parametrize(
    ("collected", "reason"),
    [
        (Collected(exit_code=1, stderr=b"srun: error: Access/permission denied\n"), "it ended with exit code 1"),
        (Collected(exit_code=None, gave_up="it was ended at its limit of 20 s"), "it was ended at its limit of 20 s"),
    ],
)
async def test_a_command_that_failed_is_told_with_its_reason(collected: Collected, reason: str) -> None:
    made = await begun()
    await made.backend.record_evidence(report(collected=collected))
    (entry,) = [
        entry
        for entry in (await made.parts.queries().incident_story(ASKING)).entries
        if entry.event == "EvidenceFailed"
    ]
    assert entry.detail.startswith(reason)
    notes = (await made.parts.queries().job_story("17")).notes
    assert any(note == f"collecting evidence of the hang failed at 12:00:31 UTC: {reason}" for note in notes)


async def test_what_was_collected_is_kept_although_the_rules_cannot_be_read() -> None:
    def broken() -> tuple[DerivedRule, ...]:
        raise ValueError("no rules today")

    made = await begun()
    backend = LocalBackend(made.history, made.live, made.loop, made.site, made.clock, broken)
    await backend.record_evidence(report())
    assert len(await made.history.kept_logs(ATTEMPT.job)) == 2
    (event,) = [
        item.event
        for item in await made.history.read(Stream.of_job(ATTEMPT.job))
        if isinstance(item.event, e.EvidenceCollected)
    ]
    assert event.hits == ()
    assert "an error of ours" in event.notes[0]


async def test_before_it_is_switched_on_the_story_says_that_it_could_be_collected() -> None:
    made = await world()
    await made.backend.record_evidence(report(collected=None, shown=EFFECT))
    notes = (await made.parts.queries().job_story("17")).notes
    assert "evidence of the hang could be collected: the site has not switched it on" in notes
