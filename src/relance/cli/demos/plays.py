"""The play: starts a cluster and Relance, runs the acts, and judges them. Its only means are those that anybody has.

Those are the scheduler's own socket and the HTTP API, with the token that the first start writes to a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from relance.cli.demos import acts, settings
from relance.cli.demos.acts import Act, Phase
from relance.cli.demos.checks import Account, problems
from relance.cli.demos.faults import SLOWER, Fault, FaultName
from relance.cli.demos.grounds import Ground, GroundFailedError, SimulatedGround, SlurmGround
from relance.cli.demos.outputs import attempts_in
from relance.client.errors import ServerRefusedError, ServerUnreachableError
from relance.client.people import ApiClient
from relance.domain.stages import EndRunning, Stage
from relance.ports.clocks import Clock
from relance.ports.tokens import TokenRole
from relance.recovery.stories import JobStory
from relance.testing.clusters import ClusterRefusedError, Training
from relance.testing.processes import ProcessFailedError

LOOK_EVERY_S = 0.25
_STEPS, _STEPS_AT_ONCE = 70, 50
"""Of each training: at 0.2 s a step enough for a fault at about step 15, and a while of steps after the restart."""
_BUG_AFTER_STEPS = 4
"""Its step has to be one that no rank has begun; on a busy machine the newest step that is known is some steps old."""
_BUG_LATER_ON_SLURM = 6
"""Slurm's commands take longer to tell which step it is."""
_CONTROLLER_LIMIT_S = 30.0


class PlayFailedError(Exception):
    """The play could not go on, whatever the acts came to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be played."""

    faults: tuple[Fault, ...]
    folder: Path
    apart: bool = False
    at_once: bool = False
    on_slurm: bool = False
    """On a private Slurm cluster instead of simulated nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All there is to show at one moment."""

    plan: Plan
    acts: tuple[Act, ...]
    started_at: datetime
    now: datetime
    url: str = ""
    token_file: Path | None = None
    person: str = ""
    problems: dict[FaultName, tuple[str, ...]] = field(default_factory=dict)
    """What came out wrong, of each act that is over."""

    @property
    def is_good(self) -> bool:
        """Whether every act is over and came out right."""
        return len(self.problems) == len(self.acts) and not any(self.problems.values())

    @property
    def duration_s(self) -> float:
        """How long the play has lasted."""
        return (self.now - self.started_at).total_seconds()


Show = Callable[[Scene], None]


class Play:
    """One performance.

    Args:
        plan: What is to be played.
        clock: Gives the time.
        show: Called with each new scene.
        pause: Waits for so many seconds.
    """

    def __init__(self, plan: Plan, clock: Clock, show: Show, pause: Callable[[float], None]) -> None:
        self._plan = plan
        self._clock = clock
        self._show = show
        self._pause = pause
        racks = [fault.job for fault in plan.faults]
        kind = SlurmGround if plan.on_slurm else SimulatedGround
        self._ground: Ground = kind(plan.folder, racks, apart=plan.apart, at_once=plan.at_once)

    @contextlib.contextmanager
    def on_stage(self) -> Iterator[Scene]:
        """Everything up and set to act; all of it is ended on the way out, however that is taken.

        Raises PlayFailedError when something does not come up.
        """
        started_at = self._clock.now()
        try:
            self._ground.start()
            server = self._ground.relance.server
            with self._client() as admin:
                person = self._set_stages(admin)
            yield Scene(
                plan=self._plan,
                acts=tuple(Act(fault=fault) for fault in self._plan.faults),
                started_at=started_at,
                now=self._clock.now(),
                url=server.url,
                token_file=self._ground.relance.token_file,
                person=person,
            )
        except (GroundFailedError, ProcessFailedError, ServerUnreachableError, ServerRefusedError, OSError) as error:
            raise PlayFailedError(str(error)) from error
        finally:
            self._ground.stop()

    def perform(self, scene: Scene) -> Scene:
        """Run all acts to their end; gives the last scene.

        Raises what `on_stage` turns into PlayFailedError.
        """
        self._show(scene)
        with self._client() as client:
            while len(scene.problems) < len(scene.acts):
                scene = self._next(scene, client)
                self._show(scene)
                if ended := self._ground.relance.ended():
                    raise PlayFailedError(f"relance {ended[0]} has ended: see {self._plan.folder / ended[0]}.log")
                self._pause(LOOK_EVERY_S)
        return scene

    def _next(self, scene: Scene, client: ApiClient) -> Scene:
        played: list[Act] = []
        found = dict(scene.problems)
        is_free = True
        for act in scene.acts:
            now = self._clock.now()
            may_begin = is_free or act.fault.is_beside
            after = self._moved(act, client, now) if may_begin or act.phase is not Phase.WAITING else act
            if after.phase is Phase.OVER and act.fault.name not in found:
                found[act.fault.name] = problems(self._account(after))
            is_done = after.phase in (Phase.MENDED, Phase.OVER)
            is_free = is_free and (self._plan.at_once or act.fault.is_beside or is_done)
            played.append(after)
        return replace(scene, acts=tuple(played), now=self._clock.now(), problems=found)

    def _moved(self, act: Act, client: ApiClient, now: datetime) -> Act:
        """The act after a look, and after what that look called for."""
        if act.phase is Phase.OVER:
            return act
        if act.phase is Phase.WAITING:
            return acts.submitted(act, self._submit(act.fault), now)
        outputs = attempts_in(self._ground.trainings.output(act.job_id))
        look = acts.Look(
            row=self._ground.trainings.job(act.job_id),
            story=_story(client, act.job_id),
            output=outputs[-1] if outputs else None,
        )
        act = acts.seen(act, look, now)
        if act.phase is not Phase.READY:
            return act
        try:
            at, node = self._break(act)
        except ClusterRefusedError:  # it ended at this very moment; the next look tells
            return act
        return acts.broken(act, at, node)

    def _submit(self, fault: Fault) -> int:
        wish: dict[str, object] = {"workflow": fault.job}
        if fault.hang_after_s is not None:
            wish["hang_after_s"] = fault.hang_after_s
        return self._ground.trainings.submit(
            Training(
                name=fault.job,
                nodes=settings.NODES_PER_JOB,
                ranks_per_node=settings.RANKS_PER_NODE,
                steps=fault.steps or (_STEPS_AT_ONCE if self._plan.at_once else _STEPS),
                step_s=settings.STEP_S,
                checkpoint_every=settings.CHECKPOINT_EVERY,
                comment=_comment(wish),
                features=(fault.job,),
            )
        )

    def _break(self, act: Act) -> tuple[datetime, str]:
        """Inject the fault; gives when, and the node that it concerns."""
        fault, name = act.fault, act.fault.name
        node = self._ground.trainings.job(act.job_id)["node_list"][fault.rank // settings.RANKS_PER_NODE]
        match name:
            case FaultName.KILL:
                return self._ground.trainings.kill_rank(act.job_id, fault.rank), node
            case FaultName.HANG:
                return self._ground.trainings.stop_rank(act.job_id, fault.rank), node
            case FaultName.NODE:
                return self._ground.trainings.break_node(node), node
            case FaultName.SLOW:
                return self._ground.trainings.slow_node(node, factor=SLOWER), node
            case FaultName.BUG:
                later = _BUG_LATER_ON_SLURM if self._plan.on_slurm else _BUG_AFTER_STEPS
                self._ground.trainings.befall(fault.job, "bug", at=(act.step or 0) + later)
            case FaultName.SCARE:
                self._ground.trainings.befall(fault.job, "frightening")
        return self._clock.now(), node

    def _account(self, act: Act) -> Account:
        return Account(
            act=act,
            attempts=tuple(self._ground.trainings.attempts(act.job_id)) if act.job_id else (),
            outputs=attempts_in(self._ground.trainings.output(act.job_id)) if act.job_id else (),
        )

    def _client(self) -> ApiClient:
        return ApiClient(self._ground.relance.server.url, self._ground.relance.server.token)

    def _set_stages(self, admin: ApiClient) -> str:
        """Let Relance act, by the word of the person who runs this; gives the name."""
        person = pwd.getpwuid(os.getuid()).pw_name
        token = admin.add_token(person, TokenRole.ADMIN)
        with ApiClient(self._ground.relance.server.url, token) as client:
            end = self._clock.monotonic() + _CONTROLLER_LIMIT_S
            while not any(row.report_as_of for row in client.stages(settings.CLUSTER)):
                if self._clock.monotonic() > end:
                    raise PlayFailedError(f"no controller reported within {_CONTROLLER_LIMIT_S:.0f} s")
                self._pause(LOOK_EVERY_S)
            client.set_stage(Stage.ACT, settings.CLUSTER)
            client.set_stage(Stage.ACT, settings.CLUSTER, settings.PARTITION, frozenset({EndRunning.HANG}))
        return person


def _story(client: ApiClient, job_id: int) -> JobStory | None:
    """What the server knows of a job; None before its first report of it."""
    try:
        return client.job_story(str(job_id))
    except ServerRefusedError as error:
        if error.status == 404:  # noqa: PLR2004 - not known yet
            return None
        raise


def _comment(wish: dict[str, object]) -> str:
    return json.dumps({"relance": wish})
