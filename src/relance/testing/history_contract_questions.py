"""The contract of questions: jobs, incidents, nodes and clusters, and projections that can be written anew."""

from __future__ import annotations

from relance.domain.incidents import IncidentState
from relance.domain.records import JobRecord, fold
from relance.domain.streams import Stream
from relance.ports.histories import History, IncidentRow
from relance.testing.appending import OpenHistory, append
from relance.testing.history_values import (
    advice_issued,
    after,
    change_seen,
    job_key,
    job_seen,
    job_stream,
    node_events,
    opening,
    stage_set,
    verdict_reached,
    whole_story,
)


async def filled(history: History) -> None:
    """Three jobs on two clusters: one whole story, one open incident, one quiet; a node, and two clusters."""
    await append(history, job_stream("17"), *whole_story("17", "inc-aaa1"))
    await append(history, job_stream("18"), job_seen("18", name="eval"), *opening("inc-aab2", "18", opened_s=100))
    await append(history, job_stream("17", "beta"), job_seen("17", "beta"))
    await append(history, Stream.of_node("alpha", "n1"), *node_events())
    await append(history, Stream.of_node("beta", "n1"), *node_events(cluster="beta"))
    await append(history, Stream.of_cluster("beta"), stage_set("beta"))
    await append(history, Stream.of_cluster("alpha"), stage_set())


def ids(rows: tuple[IncidentRow, ...]) -> list[str]:
    """Which incidents these are."""
    return [row.incident.id for row in rows]


class QuestionContract:
    """Lists and look-ups."""

    async def test_jobs_come_most_recently_changed_first(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await filled(history)
        await append(history, job_stream("17"), change_seen("x"), now=after(-100))
        history = await open_history()
        keys = [record.job for record in await history.jobs()]
        assert keys == [job_key("17"), job_key("17", "beta"), job_key("18")]
        assert [record.job for record in await history.jobs("alpha")] == [job_key("17"), job_key("18")]
        assert [record.job for record in await history.jobs(limit=1)] == [job_key("17")]
        assert await history.jobs("ALPHA") == ()

    async def test_jobs_without_an_event_since_a_time_can_be_left_out(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await filled(history)
        await append(history, job_stream("17"), change_seen("x"), now=after(5000))
        history = await open_history()
        assert [record.job for record in await history.jobs(changed_since=after(5000))] == [job_key("17")]
        assert await history.jobs("beta", changed_since=after(5000)) == ()
        assert await history.jobs(changed_since=after(5001)) == ()
        assert len(await history.jobs(changed_since=after(-5000))) == len(await history.jobs())

    async def test_jobs_are_found_by_raw_id_key_and_name(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await filled(history)
        found = {
            text: [record.job for record in await history.find_jobs(text)]
            for text in ("17", str(job_key("18")), "eval", "train", "EVAL", "1", "%", "")
        }
        assert found == {
            "17": [job_key("17", "beta"), job_key("17")],
            str(job_key("18")): [job_key("18")],
            "eval": [job_key("18")],
            "train": [job_key("17", "beta"), job_key("17")],
            "EVAL": [],
            "1": [],
            "%": [],
            "": [],
        }

    async def test_incidents_come_newest_first_and_by_what_is_asked(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await filled(history)
        assert ids(await history.incidents()) == ["inc-aab2", "inc-aaa1"]
        assert ids(await history.incidents(open_only=True)) == ["inc-aab2"]
        assert ids(await history.incidents(cluster="alpha", limit=1)) == ["inc-aab2"]
        assert ids(await history.incidents(cluster="beta")) == []
        assert ids(await history.incidents(since=after(3))) == ["inc-aab2"]
        assert ids(await history.incidents(since=after(2))) == ["inc-aab2", "inc-aaa1"]

    async def test_an_incident_comes_with_its_job(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await filled(history)
        record = (await history.load(job_stream("17"))).record
        assert isinstance(record, JobRecord)
        expected = IncidentRow(
            job=job_key("17"),
            name="train",
            user="ada",
            partition="gpu",
            workflow="wf",
            incident=record.incidents[0],
        )
        assert await (await open_history()).find_incident("inc-aaa1") == expected
        assert expected.incident.state is IncidentState.CLOSED

    async def test_an_incident_is_found_by_its_beginning_its_advice_and_its_action(
        self, open_history: OpenHistory
    ) -> None:
        history = await open_history()
        await filled(history)
        second = advice_issued("inc-aab2", "18", generation=2)
        await append(history, job_stream("18"), verdict_reached("inc-aab2"), advice_issued("inc-aab2", "18"), second)
        found = {
            text: row and row.incident.id
            for text in ("inc-aa", "inc-aaa", "inc-aab2", "INC-AAB2", "inc-aab2x", "in%", "inc_aaa", "")
            for row in [await history.find_incident(text)]
        }
        assert found == {
            "inc-aa": None,
            "inc-aaa": "inc-aaa1",
            "inc-aab2": "inc-aab2",
            "INC-AAB2": None,
            "inc-aab2x": None,
            "in%": None,
            "inc_aaa": None,
            "": None,
        }
        for name in ("adv-18-1-inc-aab2", "adv-18-2-inc-aab2"):
            row = await history.find_incident(name)
            assert row is not None
            assert row.incident.id == "inc-aab2"
        row = await history.find_incident("act-17-inc-aaa1")
        assert row is not None
        assert row.incident.id == "inc-aaa1"

    async def test_a_job_may_have_many_incidents(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await append(history, job_stream("17"), *whole_story("17", "inc-1"))
        for number in range(2, 6):
            await append(history, job_stream("17"), *opening(f"inc-{number}", opened_s=number * 10))
        assert ids(await history.incidents()) == ["inc-5", "inc-4", "inc-3", "inc-2", "inc-1"]
        assert len(await history.incidents(open_only=True)) == 4

    async def test_nodes_and_clusters_are_listed_by_name(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await filled(history)
        history = await open_history()
        assert [(record.cluster, record.node) for record in await history.nodes()] == [("alpha", "n1"), ("beta", "n1")]
        assert [record.cluster for record in await history.nodes("beta")] == ["beta"]
        assert [record.cluster for record in await history.clusters()] == ["alpha", "beta"]
        assert await history.nodes("gamma") == ()

    async def test_written_anew_the_projections_are_the_same(self, open_history: OpenHistory) -> None:
        history = await open_history()
        await filled(history)
        before = (await history.jobs(), await history.incidents(), await history.nodes(), await history.clusters())
        assert await history.rebuild() == 7
        for again in (history, await open_history()):
            after_it = (await again.jobs(), await again.incidents(), await again.nodes(), await again.clusters())
            assert after_it == before
            row = await again.find_incident("act-17-inc-aaa1")
            assert row is not None
            assert row.incident.id == "inc-aaa1"
        for record in before[0]:
            stream = Stream.of_job(record.job)
            assert record == fold(stream.name, [item.event for item in await history.read(stream)])
