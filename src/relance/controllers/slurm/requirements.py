"""What Relance asks of Slurm's settings, each with what was read, what it means, and the line that mends it. Pure."""

from __future__ import annotations

from collections.abc import Callable

from relance.controllers.slurm.defects import known_defects
from relance.controllers.slurm.kinds import FIRST_KEEPING_LICENCES, FIRST_LOSING_LICENCES, release_number
from relance.controllers.slurm.levels import Fitness, Level
from relance.slurm.site_records import ControlFacts

OLDEST, NEWEST = (22, 5), (25, 11)
"""The releases on which what Relance does was tried: all from 22.05 to 25.11."""
LEAST_MIN_JOB_AGE_S = 60
"""An advice expires 30 s before the job is forgotten and a verdict settles for 15 s: below this there is no time."""
PARKING_MIN_JOB_AGE_S = 300
"""Slurm's default, for which parking is tested (operators.md 4, test 8)."""
GOOD_MIN_JOB_AGE_S = 3600
"""What is asked of a site (operators.md 3): a person has time to answer in `approve`."""
LEAST_CRED_EXPIRE_S = 30
"""A requeued job starts by itself after cred_expire; below this the window is too short for a restart without a hold
(design 10)."""
SHORT_CRED_EXPIRE_S = 60
_DEFAULT_CRED_EXPIRE_S = 120
LONG_KILL_WAIT_S = 120
_KILLS_WAITING = "kill_invalid_depend"
_REQUEUE_REMEDY = (
    "JobRequeue=1 in slurm.conf; or arm_requeue_where_default: true in our settings, by which jobs at act are changed "
    "while they run"
)


def _release(facts: ControlFacts) -> Fitness:
    read = f"Slurm {facts.release}"
    number = release_number(facts.release)
    if number is None:
        text, remedy = "this is no release that Relance knows", "`scontrol --version` should say something like 24.11.5"
        return Fitness(name="release", level=Level.UNREADABLE, text=text, remedy=remedy, read=read)
    if number[:2] < OLDEST:
        text, remedy = "older than what Relance was tried on (22.05 to 25.11)", "update Slurm before act"
        return Fitness(name="release", level=Level.WARN, text=text, remedy=remedy, read=read)
    if number[:2] > NEWEST:
        text = "newer than what Relance was tried on (22.05 to 25.11)"
        remedy = "stay in observe until you have seen it restart a job of your own here"
        return Fitness(name="release", level=Level.WARN, text=text, remedy=remedy, read=read)
    return Fitness(name="release", level=Level.OK, text="one of the releases that Relance was tried on", read=read)


def _min_job_age(facts: ControlFacts) -> Fitness:
    age_s = facts.min_job_age_s
    read = f"MinJobAge = {'not shown' if age_s is None else f'{age_s} s'}"
    line = f"MinJobAge={GOOD_MIN_JOB_AGE_S} in slurm.conf; it costs slurmctld a few MB"
    if age_s == 0:
        return Fitness(name="min_job_age", level=Level.OK, text="ended jobs are never forgotten", read=read)
    if age_s is None:
        text = "how long an ended job can still be restarted is not shown; Slurm's default, 300 s, is assumed"
        return Fitness(name="min_job_age", level=Level.WARN, text=text, remedy=line, read=read)
    if age_s < LEAST_MIN_JOB_AGE_S:
        text = "a failed job is forgotten before anything can be decided"
        return Fitness(name="min_job_age", level=Level.BLOCKS_ACT, text=text, remedy=line, read=read)
    if age_s < PARKING_MIN_JOB_AGE_S:
        text = "a failed job is forgotten soon: in an outage of a shared service some are lost before they are parked"
        return Fitness(name="min_job_age", level=Level.WARN, text=text, remedy=line, read=read)
    if age_s < GOOD_MIN_JOB_AGE_S:
        text = f"a person who approves has {age_s - 30} s, and at night nobody answers in that time"
        return Fitness(name="min_job_age", level=Level.WARN, text=text, remedy=line, read=read)
    text = "a failed job can be restarted for long enough"
    return Fitness(name="min_job_age", level=Level.OK, text=text, read=read)


def _accounting(facts: ControlFacts) -> Fitness:
    read = f"AccountingStorageType = {facts.accounting_type or '(null)'}"
    if facts.accounting_type in (None, "none", "accounting_storage/none"):
        text = "nobody can tell whether a person cancelled a step: who decided is not known, so nothing is restarted"
        remedy = "AccountingStorageType=accounting_storage/slurmdbd in slurm.conf, and a slurmdbd"
        return Fitness(name="accounting", level=Level.BLOCKS_ACT, text=text, remedy=remedy, read=read)
    return Fitness(name="accounting", level=Level.OK, text="steps and missed attempts can be read", read=read)


def _store_flags(facts: ControlFacts) -> Fitness:
    read = f"AccountingStoreFlags = {','.join(facts.accounting_store_flags) or '(null)'}"
    if "job_comment" in facts.accounting_store_flags:
        text = "a job's settings in its comment outlive the job"
        return Fitness(name="store_flags", level=Level.OK, text=text, read=read)
    text = "a job's comment, with its settings for Relance, is lost once slurmctld forgets the job"
    remedy = "AccountingStoreFlags=job_comment in slurm.conf"
    return Fitness(name="store_flags", level=Level.WARN, text=text, remedy=remedy, read=read)


def _requeue(facts: ControlFacts) -> Fitness:
    read = f"JobRequeue = {_switch(facts.job_requeue)}"
    if facts.job_requeue is False:
        text = "only jobs submitted with --requeue can be restarted; all others are watched"
        return Fitness(name="job_requeue", level=Level.WARN, text=text, remedy=_REQUEUE_REMEDY, read=read)
    if facts.job_requeue is None:
        text = "whether jobs can be restarted is not shown; each job says it of itself"
        return Fitness(name="job_requeue", level=Level.WARN, text=text, read=read)
    text = "jobs can be restarted unless they were submitted with --no-requeue"
    return Fitness(name="job_requeue", level=Level.OK, text=text, read=read)


def _file_append(facts: ControlFacts) -> Fitness:
    read = f"JobFileAppend = {_switch(facts.job_file_append)}"
    if facts.job_file_append:
        return Fitness(name="job_file_append", level=Level.OK, text="a restart goes on in the same log", read=read)
    text = "a restart empties the job's log; Relance keeps the end of it, the last 256 KiB, but not the whole"
    remedy = "JobFileAppend=1 in slurm.conf, keep_logs: rename in our settings, or --open-mode=append in the jobs"
    return Fitness(name="job_file_append", level=Level.WARN, text=text, remedy=remedy, read=read)


def _requeue_exit(facts: ControlFacts) -> Fitness:
    set_to = [
        f"{name} = {codes}"
        for name, codes in (("RequeueExit", facts.requeue_exit), ("RequeueExitHold", facts.requeue_exit_hold))
        if codes
    ]
    if not set_to:
        text = "Slurm requeues no job because of its exit code"
        return Fitness(name="requeue_exit", level=Level.OK, text=text, read="RequeueExit = (null)")
    text = "Slurm itself requeues jobs with these exit codes: Relance leaves them to it, whatever the cause was"
    remedy = "take the codes out of slurm.conf if Relance should decide"
    return Fitness(name="requeue_exit", level=Level.WARN, text=text, remedy=remedy, read=", ".join(set_to))


def window_s(facts: ControlFacts) -> float:
    """How long a requeued job waits before it starts by itself: until its old credential has expired.

    Where `requeue_delay` is set, which 25.11 knows, it is that (SchedMD's slurm.conf page).
    """
    delay = facts.scheduler_parameters.get("requeue_delay", "")
    if delay.isascii() and delay.isdecimal():
        return float(delay)
    return float(_DEFAULT_CRED_EXPIRE_S if facts.cred_expire_s is None else facts.cred_expire_s)


def _window(facts: ControlFacts) -> Fitness:
    wait_s = window_s(facts)
    is_delay = "requeue_delay" in facts.scheduler_parameters
    if is_delay:
        read, remedy = f"SchedulerParameters requeue_delay = {wait_s:.0f} s", "take requeue_delay out of slurm.conf"
    else:
        read = f"AuthInfo cred_expire = {wait_s:.0f} s"
        remedy = "take cred_expire out of AuthInfo in slurm.conf (the default is 120)"
    if wait_s < LEAST_CRED_EXPIRE_S:
        text = (
            "a requeued job starts by itself before its exclusions can be set: a restart that needs them holds the job "
            "meanwhile, and only while relance-watchdog runs at stage act; without it nodes may not be kept out in time"
        )
        remedy = f"run relance-watchdog beside the controller, or {remedy}"
        return Fitness(name="window", level=Level.WARN, text=text, remedy=remedy, read=read)
    if wait_s < SHORT_CRED_EXPIRE_S:
        text = f"after a requeue there are {wait_s:.0f} s to set the exclusions: little when slurmctld is slow"
        return Fitness(name="window", level=Level.WARN, text=text, remedy=remedy, read=read)
    text = f"after a requeue there are {wait_s:.0f} s to set the exclusions; then the job starts by itself"
    return Fitness(name="window", level=Level.OK, text=text, read=read)


def kills_dependents(facts: ControlFacts) -> bool:
    """Whether Slurm cancels a job at once when what it waits for can never be met."""
    return bool(_killing_places(facts))


def _killing_places(facts: ControlFacts) -> list[str]:
    """Where it is set: the word is one of DependencyParameters, and was one of SchedulerParameters before."""
    return [
        name
        for name, words in (
            ("DependencyParameters", facts.dependency_parameters),
            ("SchedulerParameters", tuple(facts.scheduler_parameters)),
        )
        if _KILLS_WAITING in words
    ]


def _expedited(facts: ControlFacts) -> Fitness:
    """Manuals and sites name either setting as its place."""
    word = "enable_expedited_requeue"
    if word not in facts.controller_parameters and word not in facts.scheduler_parameters:
        text = "Slurm itself restarts no job at once on its own"
        return Fitness(name="expedited_requeue", level=Level.OK, text=text, read=f"no {word}")
    text = "jobs submitted with --requeue=expedite are started again, or held, by Slurm itself: those are only watched"
    remedy = "submit with --requeue the jobs that Relance should restart"
    return Fitness(name="expedited_requeue", level=Level.WARN, text=text, remedy=remedy, read=word)


def _invalid_depend(facts: ControlFacts) -> Fitness:
    places = _killing_places(facts)
    if not places:
        text = "jobs that wait for a failed one (afterok) stay, and can be waiting for its restart"
        return Fitness(name="dependencies", level=Level.OK, text=text, read=f"no {_KILLS_WAITING}")
    text = "jobs that wait for another (afterok) are cancelled at once when it fails: no restart can save them"
    remedy = f"take {_KILLS_WAITING} out of {' and '.join(places)} in slurm.conf"
    read = f"{places[0]} = …,{_KILLS_WAITING}"
    return Fitness(name="dependencies", level=Level.WARN, text=text, remedy=remedy, read=read)


def defects(facts: ControlFacts) -> tuple[Fitness, ...]:
    """The known defects of the release that bear on restarts, each for itself."""
    number, name, read = release_number(facts.release), "known_defects", f"Slurm {facts.release}"
    if number is None:
        text = "which defects this release has cannot be told"
        return (Fitness(name=name, level=Level.WARN, text=text, remedy="see `scontrol --version`", read=read),)
    known = known_defects(number)
    if not known:
        return (Fitness(name=name, level=Level.OK, text="no defect is known that bears on restarts", read=read),)
    return tuple(
        Fitness(name=name, level=Level.WARN, text=each.what, remedy=f"mended in Slurm {each.mended_in}", read=read)
        for each in known
    )


def _licences(facts: ControlFacts) -> Fitness:
    number = release_number(facts.release)
    read = f"Slurm {facts.release}"
    if number is not None and FIRST_LOSING_LICENCES <= number < FIRST_KEEPING_LICENCES:
        text = "this release loses a job's licences on requeue: jobs with licences are only watched"
        remedy = "update to 25.11.7 or newer"
        return Fitness(name="licences", level=Level.WARN, text=text, remedy=remedy, read=read)
    return Fitness(name="licences", level=Level.OK, text="licences survive a requeue", read=read)


def _federation(facts: ControlFacts) -> Fitness:
    remedy = "Relance acts on no federated cluster; keep it in observe here"
    if facts.federation is None:
        text = "whether the cluster is part of a federation cannot be read, where another cluster may take a job over"
        remedy = "see what `scontrol show federation` says to this account"
        return Fitness(
            name="federation", level=Level.UNREADABLE, text=text, remedy=remedy, read="scontrol show federation"
        )
    if facts.federation:
        text = "this cluster is part of a federation: another cluster may take a job over while it is being restarted"
        read = f"Federation: {facts.federation}"
        return Fitness(name="federation", level=Level.BLOCKS_ACT, text=text, remedy=remedy, read=read)
    if not facts.has_federation:
        text = "the cluster decides on its jobs alone"
        return Fitness(name="federation", level=Level.OK, text=text, read="FederationParameters = (null)")
    text = "in a federation another cluster may take a job over while it is being restarted"
    read = "FederationParameters is set"
    return Fitness(name="federation", level=Level.BLOCKS_ACT, text=text, remedy=remedy, read=read)


def _kill_wait(facts: ControlFacts) -> Fitness:
    wait_s = facts.kill_wait_s
    read = f"KillWait = {'not shown' if wait_s is None else f'{wait_s} s'}"
    if wait_s is not None and wait_s > LONG_KILL_WAIT_S:
        text = f"a running attempt that is ended may take {wait_s} s to let its nodes go"
        return Fitness(
            name="kill_wait", level=Level.WARN, text=text, remedy="KillWait=30 in slurm.conf (the default)", read=read
        )
    text = "a running attempt that is ended has that long to save; ended attempts do not care"
    return Fitness(name="kill_wait", level=Level.OK, text=text, read=read)


def _preemption(facts: ControlFacts) -> Fitness:
    modes = (facts.preempt_mode or "OFF").upper()
    read = f"PreemptMode = {modes}, PreemptType = {facts.preempt_type or '(null)'}"
    if "REQUEUE" in modes:
        text = "Slurm itself requeues preempted jobs: Relance leaves those to it and spends none of their budget"
        return Fitness(name="preemption", level=Level.WARN, text=text, read=read)
    if modes in ("OFF", "GANG"):
        return Fitness(name="preemption", level=Level.OK, text="jobs are not preempted for others", read=read)
    text = (
        "a preempted job whose ranks end in the grace time looks FAILED: Relance knows it by its PreemptTime and "
        "leaves it alone"
    )
    return Fitness(name="preemption", level=Level.WARN, text=text, read=read)


def _switch(value: bool | None) -> str:  # noqa: FBT001 - a setting
    return "not shown" if value is None else str(int(value))


REQUIREMENTS: tuple[Callable[[ControlFacts], Fitness], ...] = (
    _release, _accounting, _min_job_age, _window, _requeue, _requeue_exit, _expedited, _file_append, _store_flags,
    _federation, _preemption, _invalid_depend, _licences, _kill_wait,
)  # fmt: skip
"""In the order in which they are shown: what can block acting comes first."""
