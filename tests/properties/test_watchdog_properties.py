"""Whatever ledger, scheduler and controller do in whatever order, the watchdog never oversteps.

Random histories of two jobs: entries of the ledger, states of the scheduler, answers that are lost, a switch that is
thrown, a watchdog that is started anew. At the moment of each command it must be allowed by what is true then.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from relance.domain.advice import ActionEnd
from relance.domain.ledger_lines import read_lines
from relance.domain.ledgers import Decided, Entry, LedgerState, LetGo, Outcome, Verb, fold
from relance.domain.stages import Stage
from relance.domain.views import Hold, JobState
from relance.slurm.errors import RefusedError, SilentError, SlurmError
from relance.watchdog.ledgers import LEDGER_NAME, STOP_NAME
from relance.watchdog.settings import Rules
from tests.unit.watchdog.grounds import DUE, began, did, ended, failed, held, intended, key, taken
from tests.unit.watchdog.stands import Stand

JOBS = ("17", "18")
ENTRIES: tuple[Entry, ...] = (
    *(taken(key(raw_id, count)) for raw_id in JOBS for count in (0, 1)),
    LetGo(attempts=(str(key()),), reason="stage", at=DUE),
    Decided(attempt=str(key()), reason="stop", at=DUE),
    Decided(attempt=str(key("18")), reason="stop", at=DUE),
    began(),
    *(intended(verb) for verb in (Verb.REQUEUE, Verb.REQUEUE_HELD, Verb.RELEASE, Verb.CANCEL)),
    *(did(Verb.REQUEUE_HELD, outcome=outcome) for outcome in Outcome),
    did(Verb.RELEASE, 2),
    *(ended(end) for end in ActionEnd),
)
STAGES = st.sampled_from([Stage.ACT, Stage.ACT, Stage.OBSERVE, Stage.APPROVE])
LOST = SilentError("it never arrived")
ERRORS = (RefusedError("no"), SilentError("no answer"), LOST)
MOVES = st.one_of(
    st.tuples(st.just("entry"), st.sampled_from(ENTRIES)),
    st.tuples(st.just("state"), st.tuples(st.sampled_from(JOBS), st.sampled_from(list(JobState)))),
    st.tuples(st.just("count"), st.tuples(st.sampled_from(JOBS), st.integers(0, 2))),
    st.tuples(st.just("hold"), st.tuples(st.sampled_from(JOBS), st.sampled_from(list(Hold)))),
    st.tuples(st.just("name"), st.tuples(st.sampled_from(JOBS), st.just("same"))),
    st.tuples(st.just("pause"), st.sampled_from([0.1, 5.0, 61.0, 300.0])),
    st.tuples(st.just("beat"), st.sampled_from([1.0, 100.0, 90_000.0])),
    st.tuples(
        st.just("fails"), st.tuples(st.sampled_from(["jobs", "job", "attempts", "send"]), st.sampled_from(ERRORS))
    ),
    st.tuples(st.just("fails"), st.just(("send", LOST))),
    st.tuples(st.sampled_from(["stop", "go", "heal", "anew", "damage", "round", "round"]), st.none()),
)


class World(Stand):
    """A stand that looks at each command whether it may be sent."""

    def __init__(self, folder: Path, stage: Stage, *, is_held: bool) -> None:
        super().__init__(folder, Rules(stage=stage))
        self.requeued: list[str] = []
        hold = (began(), intended(Verb.REQUEUE_HELD), did(Verb.REQUEUE_HELD))
        self.write(taken(), taken(key("18")), *(hold if is_held else ()))
        self.show(held() if is_held else failed(), failed("18"))
        sending = self.scheduler.send

        async def checked(argv: tuple[str, ...]) -> None:
            self.check(argv)
            await sending(argv)

        self.scheduler.send = checked  # type: ignore[method-assign,assignment]  # looks before it sends

    @property
    def ledger(self) -> LedgerState:
        path = self.folder / LEDGER_NAME
        reading = read_lines(path.read_bytes())
        assert not reading.damaged
        return fold(reading.entries)

    def check(self, argv: tuple[str, ...]) -> None:
        """What has to be true of every command when it goes out."""
        job = self.scheduler.shown[argv[-1]]
        assert self.rules.stage is Stage.ACT
        assert not (self.folder / STOP_NAME).exists()
        if argv[1] == "release":
            assert job.hold is Hold.USER
            intents = [item for record in self.ledger.actions.values() for item in record.intents]
            assert any(item.verb is Verb.REQUEUE_HELD and item.restart_count == job.restart_count for item in intents)
            return
        assert argv[1] == "requeue"
        attempt = str(key(job.raw_id, job.restart_count))
        assert attempt in self.ledger.left_to_the_watchdog
        assert job.state in (JobState.FAILED, JobState.NODE_FAIL)
        assert attempt not in self.requeued
        self.requeued.append(attempt)

    async def move(self, kind: str, what: object) -> None:
        match kind, what:
            case "entry", entry:
                self.append(entry)  # type: ignore[arg-type]  # drawn from entries
                self.beat(120.0)
            case "state", (str() as raw_id, JobState() as state):
                job = self.scheduler.shown[raw_id]
                self.show(replace(job, state=state, ended_at=DUE if state.is_over else None))
            case "count", (str() as raw_id, int() as count):
                self.show(replace(self.scheduler.shown[raw_id], restart_count=count))
            case "hold", (str() as raw_id, Hold() as hold):
                self.show(replace(self.scheduler.shown[raw_id], hold=hold))
            case "name", (str() as raw_id, str() as name):
                self.show(replace(self.scheduler.shown[raw_id], name=name))
            case "pause", float() as seconds:
                self.clock.advance(seconds)
            case "beat", float() as ago_s:
                self.beat(ago_s)
            case "fails", (str() as question, SlurmError() as error):
                self.scheduler.fails[question] = error
            case _:
                await self._other(kind)

    async def _other(self, kind: str) -> None:
        match kind:
            case "stop":
                (self.folder / STOP_NAME).touch()
            case "go":
                (self.folder / STOP_NAME).unlink(missing_ok=True)
            case "heal":
                self.scheduler.fails.clear()
            case "anew":
                self.new_watch()
            case "damage":
                whole = (self.folder / LEDGER_NAME).read_bytes()
                (self.folder / LEDGER_NAME).write_bytes(whole.replace(b"Taken", b"Tekan", 1))
                sent = len(self.scheduler.sent)
                await self.watch.round()
                assert len(self.scheduler.sent) == sent
                (self.folder / LEDGER_NAME).write_bytes(whole)
                self.beat(120.0)
            case _:
                await self.rounds()


async def _live(world: World, moves: list[tuple[str, object]]) -> World:
    for kind, what in moves:
        await world.move(kind, what)
    await world.rounds(2)
    return world


@settings(max_examples=100, deadline=None)
@given(moves=st.lists(MOVES, max_size=14), is_held=st.booleans(), stage=STAGES)
def test_it_never_acts_without_the_ledgers_word_never_twice_and_never_below_act(
    moves: list[tuple[str, object]], stage: Stage, *, is_held: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = asyncio.run(_live(World(Path(folder), stage, is_held=is_held), moves))
        if stage is not Stage.ACT:
            assert world.scheduler.sent == []
        # An assertion that fails inside a round would be caught as an error of the watchdog's own.
        assert not any("AssertionError" in line.get("text", "") for line in world.said)
