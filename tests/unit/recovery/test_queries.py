from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain.advice import Answer
from relance.domain.faults import FaultDomain, Remedy, Scope
from relance.domain.findings import Certainty, Coverage, FindingKind, Sight
from relance.domain.incidents import IncidentState
from relance.domain.keys import JobKey
from relance.domain.stages import Stage
from relance.domain.streams import Stream
from relance.domain.views import JobState, NodeState
from relance.recovery.stories import quote_of
from relance.recovery.subjects import AmbiguousError, NotKnownError
from relance.testing import history_values as values
from tests.served.worlds import ADVICE, ASKING, progress, world


async def test_the_list_of_jobs_shows_what_the_scheduler_said_last() -> None:
    rows = {row.job.raw_id: row for row in await (await world()).parts.queries().jobs()}
    assert rows["17"].state is JobState.FAILED
    assert rows["18"].state is JobState.COMPLETED
    assert rows["19"].state is JobState.RUNNING
    assert rows["19"].as_of == values.after(30)
    assert rows["19"].headline == "running, step 1 200 of 5 000"
    assert rows["17"].incident_id == ASKING


async def test_the_last_step_of_a_job_that_is_over_comes_from_its_history() -> None:
    made = await world()
    key = values.attempt_key("21")
    ended = e.AttemptEnded(
        attempt=key, outcome=JobState.COMPLETED, ended_at=values.after(9), highest_step=900, durable_step=900
    )
    await made.append(values.job_stream("21"), values.job_seen("21"), ended)
    (row,) = [row for row in await made.parts.queries().jobs() if row.job.raw_id == "21"]
    assert (row.state, row.step, row.progress) == (JobState.COMPLETED, 900, None)


async def test_a_job_that_no_report_shows_is_unknown_and_never_healthy() -> None:
    made = await world()
    made.live.reports.clear()
    rows = {row.job.raw_id: row for row in await made.parts.queries().jobs()}
    assert rows["19"].state is JobState.UNKNOWN
    assert rows["19"].as_of is None
    assert rows["18"].state is JobState.FAILED, "what its stream last knew"


async def test_jobs_can_be_asked_for_by_owner_and_cluster() -> None:
    ask = (await world()).parts.queries()
    assert len(await ask.jobs(user="ada")) == 3
    assert await ask.jobs(user="bob") == ()
    assert await ask.jobs(cluster="beta") == ()


async def test_the_five_answers_of_a_job_that_waits_for_an_approval() -> None:
    story = await (await world()).parts.queries().job_story("17")
    assert story.answers.running == "no: attempt 1 ended as failed at 12:00:02 UTC"
    assert story.answers.lost == "30 steps to do again, about 30 s if it starts from its last checkpoint"
    assert story.answers.fault == "it is a node, not your code: n1 (GPU fell off the bus); confidence high"
    assert story.answers.next == (
        "a person must approve until 12:03:20 UTC: restart the job from its last checkpoint without n1"
    )
    assert story.quote is not None
    assert story.quote.text == "RuntimeError: CUDA error"
    assert story.quote.place == "/logs/out.txt (byte 0), rank 0, n0"


async def test_the_five_answers_of_a_job_that_runs_undisturbed() -> None:
    made = await world()
    loaded = replace(progress(1200, total=5000), loaded_step=1000, first_step=1001)
    made.live.progress[values.attempt_key("19")] = loaded
    answers = (await made.parts.queries().job_story("19")).answers
    assert answers.running == "yes: attempt 1 since 12:00:00 UTC, at step 1 200 (12:00:01 UTC)"
    assert answers.from_step == "from the checkpoint of step 1 000; its first step was 1 001"
    assert (answers.lost, answers.fault) == ("nothing", "nothing went wrong so far")
    assert answers.next == "nothing: no incident is open"


async def test_a_silence_that_is_no_incident_is_shown_until_the_job_steps() -> None:
    made = await world()
    key = values.attempt_key("19")
    quiet = replace(progress(1200, total=5000), steps_seen=1200)
    made.live.progress[key] = quiet
    told = replace(
        values.finding(raw_id="19"), kind=FindingKind.HANG, certainty=Certainty.SUSPECTED, symptom="hang",
        progress=quiet, is_passing=True,
    )  # fmt: skip
    await made.append(values.job_stream("19"), e.FindingReported(finding=told, at=values.after(20)))
    ask = made.parts.queries()
    (row,) = [row for row in await ask.jobs() if row.job.raw_id == "19"]
    assert row.headline == "running, step 1 200 of 5 000; no step for 29 s: a hang is suspected"
    answers = (await ask.job_story("19")).answers
    assert answers.running.endswith("no step for 29 s: a hang is suspected")
    assert answers.fault == "nothing is known to be wrong; a hang is suspected"
    assert answers.next.startswith("nothing yet: ")

    made.live.progress[key] = replace(quiet, steps_seen=1201, step=1201)
    assert "hang" not in str((await ask.job_story("19")).answers)


async def test_what_is_only_told_is_not_said_twice() -> None:
    made = await world()
    reached, issued = values.verdict_reached("inc-19"), values.advice_issued("inc-19", raw_id="19")
    slow = replace(
        reached.verdict, cause="slowdown", summary="steps take twice as long", remedy=Remedy.NONE,
        remedy_reason="its owner is told",
    )  # fmt: skip
    advice = replace(
        issued.advice, action=Remedy.NONE, exclude=(), reasons=("steps take twice as long; its owner is told",)
    )
    opening = values.opening("inc-19", raw_id="19")
    events = (*opening, replace(reached, verdict=slow), replace(issued, advice=advice))
    await made.append(values.job_stream("19"), *events)
    story = await made.parts.queries().job_story("19")
    assert story.happened == "steps take twice as long"
    assert story.answers.next == "nothing: its owner is told"


def test_what_metrics_show_has_a_place_without_bytes() -> None:
    hit = replace(values.rule_hit(0), scope=Scope.METRICS, file="prometheus/hot/n1/gpu0", offset=1_796_076_331)
    assert quote_of(hit).place == "prometheus/hot/n1/gpu0, rank 0, n0"


async def test_logs_that_cannot_be_read_are_named_with_the_reason() -> None:
    made = await world()
    seen = Coverage(source="/logs/out.txt", sight=Sight.SEEN)
    unread = tuple(Coverage(source=f"/logs/{name}", sight=Sight.REFUSED, note="a FIFO") for name in "abcdefg")
    made.live.coverage[values.attempt_key("19")] = (seen, unread[0])
    assert (await made.parts.queries().job_story("19")).notes == ("not read: /logs/a: a FIFO",)
    made.live.coverage[values.attempt_key("19")] = (seen, *unread)
    assert (await made.parts.queries().job_story("19")).notes[-2:] == ("not read: /logs/e: a FIFO", "not read: 2 more")


async def test_an_old_view_of_the_scheduler_says_its_age() -> None:
    made = await world()
    made.clock.advance(300)
    answers = (await made.parts.queries().job_story("19")).answers
    assert answers.running.endswith("(as the scheduler said 5 min ago)")


async def test_at_observe_the_answer_says_what_would_have_been_done() -> None:
    story = await (await world(Stage.OBSERVE)).parts.queries().job_story("17")
    assert story.answers.next == (
        "nothing by us at stage observe; we would restart the job from its last checkpoint without n1"
    )


async def test_at_observe_an_advice_that_waits_promises_no_restart() -> None:
    made = await world(Stage.OBSERVE)
    issued = values.advice_issued(ASKING, generation=9)
    await made.append(values.job_stream("17"), replace(issued, advice=replace(issued.advice, hold=True)))
    story = await made.parts.queries().job_story("17")
    assert story.answers.next.startswith(
        "nothing by us at stage observe; we would restart the job from its last checkpoint without n1, but not yet: "
    )


async def test_a_job_that_did_not_resume_begins_with_an_alarm() -> None:
    made = await world()
    late = replace(values.finding(9, raw_id="19"), kind=FindingKind.DID_NOT_RESUME)
    await made.append(values.job_stream("19"), e.FindingReported(finding=late))
    assert (await made.parts.queries().job_story("19")).alarm.startswith("The new attempt did not resume")


async def test_a_job_is_found_by_key_id_and_name() -> None:
    made = await world()
    ask = made.parts.queries()
    await made.append(values.job_stream("20"), values.job_seen("20", name="only-one"))
    assert (await ask.job_story(str(values.job_key("20")))).job.job.raw_id == "20"
    assert (await ask.job_story("20")).job.job.raw_id == "20"
    assert (await ask.job_story("only-one")).job.job.raw_id == "20"
    with pytest.raises(NotKnownError):
        await ask.job_story("nobody")
    with pytest.raises(AmbiguousError, match="alpha/17/"):
        await ask.job_story("train")


async def test_an_id_that_was_used_again_means_the_newest_job() -> None:
    made = await world()
    again = JobKey(cluster="alpha", raw_id="17", submitted_at=values.after(86400))
    await made.append(Stream.of_job(again), replace(values.job_seen("17"), job=again))
    assert (await made.parts.queries().job_story("17")).job.job == again


async def test_an_id_on_two_clusters_has_to_be_said_by_key() -> None:
    made = await world()
    await made.append(values.job_stream("17", "beta"), values.job_seen("17", "beta"))
    with pytest.raises(AmbiguousError, match="beta/17/"):
        await made.parts.queries().job_story("17")


async def test_the_story_of_an_incident_is_in_the_order_of_the_history() -> None:
    story = await (await world()).parts.queries().incident_story(ASKING)
    assert [entry.event for entry in story.entries] == [
        "AttemptStarted",
        "AttemptEnded",
        "FindingReported",
        "IncidentOpened",
        "VerdictReached",
        "AdviceIssued",
        "ActionPrepared",
    ]
    assert [entry.position for entry in story.entries] == sorted(entry.position for entry in story.entries)
    assert story.commands == ("scontrol requeue 17", "scontrol update JobId=17 ExcNodeList=n1 StartTime=now")
    assert story.entries[2].quotes[0].text == "RuntimeError: CUDA error"
    assert story.entries[6].commands == story.commands
    assert story.not_approvable == ""


async def test_an_incident_is_found_by_its_advice_and_by_a_beginning_of_its_id() -> None:
    ask = (await world()).parts.queries()
    assert (await ask.incident_story(ADVICE)).incident.id == ASKING
    assert (await ask.incident_story("inc-18")).incident.state is IncidentState.CLOSED
    with pytest.raises(NotKnownError):
        await ask.incident_story("inc-99")


async def test_every_gate_is_shown_with_its_answer() -> None:
    story = await (await world(Stage.OBSERVE)).parts.queries().incident_story(ASKING)
    answers = {gate.name: gate.answer for gate in story.gates}
    assert answers["stage"] is Answer.NO
    assert answers["unexpired"] is Answer.YES
    assert answers["rights"] is Answer.YES
    assert story.not_approvable.startswith("the job is at stage observe")


async def test_milestones_count_from_the_symptom() -> None:
    story = await (await world()).parts.queries().incident_story("inc-18")
    since = {line.name: line.since_symptom_s for line in story.milestones}
    assert since["symptom"] == 0.0
    assert since["act"] == 4.5
    assert since["step"] is None


async def test_the_list_of_advice_says_what_each_waits_for() -> None:
    made = await world()
    (row,) = await made.parts.queries().advice()
    assert (row.id, row.action, row.needs_approval) == (ADVICE, Remedy.RESTART_EXCLUDING, True)
    assert row.waits_for == "nobody has approved this generation yet"
    assert row.effect_digest == "d" * 64
    await made.append(Stream.of_cluster("alpha"), values.stage_set(stage=Stage.ACT))
    (row,) = await made.parts.queries().advice()
    assert (row.needs_approval, row.waits_for) == (False, "the controller")


async def test_nodes_carry_state_exclusions_and_who_works_there() -> None:
    rows = {row.node: row for row in await (await world()).parts.queries().nodes()}
    assert rows["n0"].jobs == ("19",)
    assert rows["n1"].state is NodeState.DOWN
    assert rows["n1"].exclusions[0].reason == "Xid 79"


async def test_a_node_that_only_the_history_knows_is_unknown() -> None:
    made = await world()
    made.live.reports.clear()
    (row,) = await made.parts.queries().nodes()
    assert (row.node, row.state, row.as_of) == ("n1", NodeState.UNKNOWN, None)


async def test_the_history_is_read_from_its_end_or_from_a_position() -> None:
    made = await world()
    ask, head = made.parts.queries(), await made.history.head()
    assert [row.position for row in await ask.history(limit=3)] == [head - 2, head - 1, head]
    assert [row.position for row in await ask.history(after=0, limit=2)] == [1, 2]
    assert (await ask.history(after=head)) == ()
    assert {row.stream for row in await ask.job_history("17")} == {str(values.job_stream("17"))}


async def test_stages_show_what_is_set_and_how_old_the_view_is() -> None:
    made = await world()
    made.clock.advance(12)
    (row,) = await made.parts.queries().stages()
    assert row.setting is not None
    assert (row.setting.stage, row.setting.set_by, row.report_age_s) == (Stage.APPROVE, "root", 12.0)
    assert (await made.parts.queries().job_stage("17")).effective.stage is Stage.APPROVE


async def test_figures_count_and_measure_per_kind() -> None:
    figures = await (await world()).parts.queries().figures()
    assert (figures.incidents, figures.open) == (2, 1)
    (kind,) = figures.kinds
    assert (kind.kind, kind.domain, kind.incidents) == ("gpu_fell_off_the_bus", FaultDomain.HARDWARE.value, 2)
    assert (kind.act.count, kind.act.median_s) == (1, 4.5)
    assert [(count.name, count.number) for count in figures.ends] == [("recovered", 1)]
