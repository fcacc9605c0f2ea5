"""A training stands still: how long until that is suspected, and until each kind of sign confirms it; what never is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from bench.measures import Limit, Result
from bench.standstills import (
    COLLECTING_S,
    LOOK_S,
    RULES,
    SIGNALS_EVERY_S,
    STORE_DELAY_S,
    Standing,
    silent_node,
    xid_metric,
)
from relance.domain.findings import Certainty, FindingKind, Sign
from relance.domain.limits import HangLimits
from relance.domain.observations import Activity

_STEP_TIMES_S = (0.5, 2.0, 10.0, 60.0)
_STEPS = 60
_OWNER_S = 900.0
_PAUSE_S = 900.0
"""A save or an evaluation by one rank, as large models take (numbers.md 4.2: 12 minutes)."""
_SLACK_S = 2.0
_SPINNING: Mapping[Activity, int] = {Activity.SPINNING: 7, Activity.IDLE: 1}
_IDLE: Mapping[Activity, int] = {Activity.IDLE: 8}
_SHIPPED = HangLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of sign: how it comes, and after how long a silence it confirms, by the usual time of a step."""

    name: str
    sign: Sign
    strike: Callable[[Standing], None]
    limit_s: Callable[[float], float]


def _signed_s(step_s: float) -> float:
    return max(_SHIPPED.signed_min_s, _SHIPPED.signed_medians * step_s)


def _pictured_s(step_s: float) -> float:
    return max(_SHIPPED.gpu_min_s, _SHIPPED.gpu_pause_times * step_s)


def _told(text: str, file: str = "job.out", node: str | None = None) -> Callable[[Standing], None]:
    return lambda standing: standing.write(text, file=file, node=node)


_XID = "n3 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
_KINDS = (
    Kind(
        name="a rank is dead", sign=Sign.PROCESS_DEATH, strike=_told("srun: error: n3: task 5: Killed"),
        limit_s=_signed_s,
    ),
    Kind(name="Xid in the kernel's log", sign=Sign.KERNEL, strike=_told(_XID, "n3.log", "n3"), limit_s=_signed_s),
    Kind(
        name="Xid by its metric", sign=Sign.DEVICE, strike=lambda standing: standing.tell(xid_metric),
        limit_s=_signed_s,
    ),
    Kind(
        name="a node's telemetry ends", sign=Sign.NODE_SILENT, strike=lambda standing: standing.tell(silent_node),
        limit_s=_signed_s,
    ),
    Kind(
        name="flight recorder", sign=Sign.COLLECTIVE, strike=lambda standing: standing.collect("fr-missing-rank", 5),
        limit_s=_signed_s,
    ),
    Kind(
        name="NCCL RAS", sign=Sign.COLLECTIVE, strike=lambda standing: standing.collect("ras-rank-dead", 5),
        limit_s=_signed_s,
    ),
    Kind(
        name="stacks", sign=Sign.STACKS, strike=lambda standing: standing.collect("stack-minority", 5),
        limit_s=_signed_s,
    ),
    Kind(
        name="all GPUs wait", sign=Sign.GPU_SIGNATURE, strike=lambda standing: standing.show(_SPINNING),
        limit_s=_pictured_s,
    ),
    Kind(
        name="all GPUs idle", sign=Sign.GPU_SIGNATURE, strike=lambda standing: standing.show(_IDLE),
        limit_s=_pictured_s,
    ),
    Kind(
        name="the owner's limit", sign=Sign.OWNER_LIMIT, strike=lambda standing: standing.wish(_OWNER_S),
        limit_s=lambda _: _OWNER_S,
    ),
)  # fmt: skip


def measure(*, quick: bool) -> Result:
    """Let trainings of several step times stand still in each of these ways, on a virtual clock."""
    steps_s = _STEP_TIMES_S[::3] if quick else _STEP_TIMES_S
    suspected = {step_s: _suspected_s(step_s) for step_s in steps_s}
    confirmed = {kind.name: {step_s: _confirmed_s(kind, step_s) for step_s in steps_s} for kind in _KINDS}
    alone = [_log_alone(step_s) for step_s in steps_s]
    pauses = {name: sum(counts) for name, counts in _pauses(steps_s)}
    wrong = [f"{kind}, {step_s:g} s a step: never confirmed" for kind, delays in confirmed.items()
             for step_s, delay_s in delays.items() if delay_s is None]  # fmt: skip
    return Result(
        name="hangs",
        measure="standstill to suspected, and to confirmed by each kind of sign",
        limits=(
            *(
                Limit(
                    name=f"suspected, {step_s:g} s a step",
                    value=delay_s,
                    most=max(_SHIPPED.suspected_min_s, _SHIPPED.suspected_medians * step_s) + LOOK_S,
                )
                for step_s, delay_s in suspected.items()
            ),
            *(
                Limit(name=f"{kind.name}: beyond its limit", value=_beyond_s(kind, confirmed[kind.name]), most=_SLACK_S)
                for kind in _KINDS
            ),
            Limit(name="confirmed by the log alone within a day", value=sum(alone), most=0, unit=""),
            *(Limit(name=f"confirmed: {name}", value=count, most=0, unit="") for name, count in pauses.items()),
        ),
        figures={"suspected_after_s": _by_step(suspected), "confirmed_after_s": {
            name: _by_step(delays) for name, delays in confirmed.items()
        }},
        wrong=tuple(wrong),
        conditions=(
            f"a training of 4 nodes x 2 GPUs that makes {_STEPS} steps and then none, read by the real pipeline with "
            f"the shipped {len(RULES.metrics)} metric rules and limits; virtual clock, a look at the logs every "
            f"{LOOK_S:g} s, signals every {SIGNALS_EVERY_S:g} s from a store {STORE_DELAY_S:g} s behind; evidence is "
            f"collected {COLLECTING_S:g} s after a silence was told to last; delays count "
            f"from the last step; saves and evaluations of {_PAUSE_S:g} s by one rank, announced and not, while the "
            "other GPUs wait and traces name the rank that saves"
        ),
    )  # fmt: skip


def _suspected_s(step_s: float) -> float | None:
    standing = Standing()
    standing.train(_STEPS, step_s)
    return standing.look_on(4.0 * step_s + 60.0, lambda finding: finding.certainty is Certainty.SUSPECTED)


def _confirmed_s(kind: Kind, step_s: float) -> float | None:
    standing = Standing()
    standing.train(_STEPS, step_s)
    kind.strike(standing)
    return standing.look_on(
        kind.limit_s(step_s) + 300.0,
        lambda finding: finding.kind is FindingKind.HANG and kind.sign in finding.signs,
    )


def _beyond_s(kind: Kind, delays: Mapping[float, float | None]) -> float | None:
    """By how much the limit was exceeded at worst."""
    told = [delay_s - kind.limit_s(step_s) for step_s, delay_s in delays.items() if delay_s is not None]
    return round(max(told), 3) if len(told) == len(delays) else None


def _log_alone(step_s: float) -> int:
    standing = Standing()
    standing.train(_STEPS, step_s)
    standing.look_on(86_400.0, lambda _: False, every_s=30.0)
    return standing.confirmed


def _pauses(steps_s: tuple[float, ...]) -> Iterator[tuple[str, list[int]]]:
    """What is confirmed in pauses that one rank makes, whatever the GPUs and the traces show meanwhile."""
    words = {"a save": ("saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format",),
             "an evaluation": ("Evaluating on 10240 samples",)}  # fmt: skip
    for (name, lines), is_announced in product(words.items(), (True, False)):
        counts = []
        for step_s in steps_s:
            standing = Standing()
            standing.train(_STEPS, step_s)
            for line in lines if is_announced else ():
                standing.write(line.format(step=_STEPS))
            standing.show(_SPINNING)
            standing.collect("fr-missing-rank", 0)
            standing.collect("stack-minority", 0)
            standing.look_on(_PAUSE_S, lambda _: False)
            standing.train(20, step_s)
            counts.append(standing.confirmed)
        yield f"{name} of 15 min, {'announced' if is_announced else 'not announced'}", counts


def _by_step(delays: Mapping[float, float | None]) -> dict[str, float | None]:
    return {f"{step_s:g} s a step": delay_s for step_s, delay_s in delays.items()}
