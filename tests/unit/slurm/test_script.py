"""The script that runs commands for us on another host: it runs all that we can build, and nothing else."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relance.controllers.slurm import inspections, rights
from relance.slurm import commands, script
from relance.slurm.commands import Change
from relance.slurm.errors import BadArgumentError
from relance.slurm.hostlists import compress, expand
from relance.slurm.parsing.accounting import ACCOUNTING_COLUMNS
from relance.slurm.parsing.briefs import BRIEF_COLUMNS, EXCLUSION_COLUMNS
from relance.slurm.parsing.glances import GLANCE_COLUMNS
from relance.slurm.parsing.steps import STEP_COLUMNS
from relance.slurm.parsing.watches import WATCH_COLUMNS
from relance.slurm.scripts import script_text
from tests.unit.slurm.recorded import MARK

Values = Mapping[str, str]
Build = Callable[[Values], tuple[str, ...]]

ALLOWED = [line for line in (script.READS + script.CHANGES).split("\n") if line]


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def columns(*names: str) -> str:
    return ",".join(f"{name}:{MARK}" for name in names)


def signs(*names: str) -> str:
    return "".join(f"{name}{MARK}" for name in names)


def restart(v: Values) -> tuple[str, ...]:
    start = v.get("start")
    starts_at = None if start is None else 0 if start == "now" else seconds(start)
    change = Change(excluded_nodes=expand(v["nodes"]), starts_at=starts_at, stdout=v.get("path"))
    return commands.update(v["job"], change)


def waiting(v: Values) -> tuple[str, ...]:
    return commands.update(v["job"], Change(starts_at=0 if v["start"] == "now" else seconds(v["start"])))


RESERVED = "StartTime=now EndTime={time} Flags=MAINT,IGNORE_JOBS Users=root"
BUILT: tuple[tuple[str, str, Build, Values], ...] = (
    ("glance", "squeue --all --local --array-unique --states=all --Format={columns}",
     lambda _: commands.glance(mark=MARK), {"columns": columns(*GLANCE_COLUMNS)}),
    ("brief", "squeue --all --local --array-unique --states=all --jobs={job} --Format={columns}",
     lambda v: commands.brief(v["job"], mark=MARK), {"columns": columns(*BRIEF_COLUMNS)}),
    ("watch", "squeue --all --local --array-unique --states=all [--jobs={job}] --Format={columns}",
     lambda v: commands.watch(mark=MARK, job=v.get("job", "")), {"columns": columns(*WATCH_COLUMNS)}),
    ("exclusions", "squeue --all --local --array-unique --states=all --jobs={job} --format={signs}",
     lambda v: commands.exclusions(v["job"], mark=MARK), {"signs": signs(*EXCLUSION_COLUMNS)}),
    ("all_jobs", "squeue --all --local --states=all --json", lambda _: commands.all_jobs(), {}),
    ("some_jobs", "squeue --all --local --states=all --jobs={jobs} --json",
     lambda v: commands.some_jobs(v["jobs"].split(",")), {}),
    ("living_steps", "squeue --all --local --steps [--jobs={jobs}] --format={signs}",
     lambda v: commands.living_steps(mark=MARK, ids=v["jobs"].split(",") if "jobs" in v else ()),
     {"signs": signs(*STEP_COLUMNS)}),
    ("nodes", "scontrol --all show node", lambda _: commands.nodes(), {}),
    ("reservations", "scontrol --all show reservation", lambda _: commands.reservations(), {}),
    ("settings", "scontrol show config", lambda _: commands.settings(), {}),
    ("federation", "scontrol show federation", lambda _: commands.federation(), {}),
    ("accounting_fields", "sacct --helpformat", lambda _: commands.accounting_fields(), {}),
    ("accounting_of", "sacct --duplicates --parsable --delimiter={mark} --format={fields} --jobs={jobs}",
     lambda v: commands.accounting_of(v["jobs"].split(","), mark=v["mark"], has_restarts=True),
     {"fields": ",".join((*ACCOUNTING_COLUMNS, "Restarts"))}),
    ("accounting_since",
     "sacct --duplicates --parsable --delimiter={mark} --format={fields} --allusers --starttime={time}",
     lambda v: commands.accounting_since(seconds(v["time"]), mark=v["mark"]), {"fields": ",".join(ACCOUNTING_COLUMNS)}),
    ("question",
     "sacctmgr --noheader --parsable2 --readonly show user name={user} withcoord format=User,AdminLevel,Coordinators",
     lambda v: rights.question(v["user"]), {}),
    ("counts", "sdiag", lambda _: inspections.COUNTS, {}),
    ("requeue", "scontrol requeue {job}", lambda v: commands.requeue(v["job"]), {}),
    ("requeue", "scontrol requeue incomplete {job}", lambda v: commands.requeue(v["job"], if_living=True), {}),
    ("requeue_held", "scontrol requeuehold {job}", lambda v: commands.requeue_held(v["job"]), {}),
    ("requeue_held", "scontrol requeuehold incomplete {job}",
     lambda v: commands.requeue_held(v["job"], if_living=True), {}),
    ("hold", "scontrol hold {job}", lambda v: commands.hold(v["job"]), {}),
    ("release", "scontrol release {job}", lambda v: commands.release(v["job"]), {}),
    ("update", "scontrol update JobId={job} ExcNodeList={nodes} [StartTime={start}] [StdOut={path}]", restart, {}),
    ("update", "scontrol update JobId={job} StartTime={start}", waiting, {}),
    ("update", "scontrol update JobId={job} Requeue={switch}",
     lambda v: commands.update(v["job"], Change(requeue=v["switch"] == "1")), {}),
    ("rearm", "scontrol update JobId={job} Dependency={dependency}",
     lambda v: commands.rearm(v["job"], v["dependency"]), {}),
    ("drain", "scontrol update NodeName={node} State=DRAIN Reason={reason}",
     lambda v: commands.drain(v["node"], v["reason"]), {}),
    ("undrain", "scontrol update NodeName={node} State=UNDRAIN", lambda v: commands.undrain(v["node"]), {}),
    ("reserve",
     f"scontrol create reservation ReservationName={{reservation}} Nodes={{node}} {RESERVED}",
     lambda v: commands.reserve(v["reservation"], v["node"], seconds(v["time"])), {}),
    ("unreserve", "scontrol delete ReservationName={reservation}", lambda v: commands.unreserve(v["reservation"]), {}),
    ("cancel", "scancel {job}", lambda v: commands.cancel(v["job"]), {}),
)  # fmt: skip
"""By name in `relance.slurm.commands` or its users: the form of the command, how it is built, and what is constant."""

TIMES = st.integers(1, 1 << 32).map(lambda at: datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True).filter(lambda name: name.lower() != "all")
DRAWN: Mapping[str, st.SearchStrategy[str]] = {
    **{name: st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True) for name, pattern in script.VALUES.items()},
    "nodes": st.lists(NAMES, max_size=6).map(compress),
    "time": TIMES,
    "start": TIMES | st.just("now"),
}
HOSTILE = (
    "-M", "--clusters=other", "-Mother", "all", "State=DOWN", "NodeName=gpu[001-002]", "SuspendProgram=/x", "12\n13",
    "1 2", "--", "", "$(id)", "`id`", ";", "shutdown", "--uid=0", "JobId=1,2", "UserId=0", "-o", "@file", "Users=ada",
    "x" * 300_000, "\uff11\uff12", "12\u2028", "a\x00b",
)  # fmt: skip


@st.composite
def built(draw: st.DrawFn) -> tuple[list[str], Build, Values]:
    """A command of one of the forms, with drawn values; how it is built from them; and the values."""
    _, form, build, constant = draw(st.sampled_from(BUILT))
    values = dict(constant)
    words: list[str] = []
    for word in form.split():
        if word.startswith("["):
            if not draw(st.booleans()):
                continue
            word = word[1:-1]  # noqa: PLW2901
        for name in re.findall(r"\{([a-z]+)\}", word):
            if name not in values:
                values[name] = draw(DRAWN[name])
            word = word.replace(f"{{{name}}}", values[name])  # noqa: PLW2901
        words.append(word)
    # A reason is the one value that may hold blanks.
    if "reason" in values:
        words = [*form.replace("{node}", values["node"]).split()[:-1], f"Reason={values['reason']}"]
    return words, build, values


def test_all_that_can_be_built_is_known_here() -> None:
    """Whoever adds a command adds its form here and to the script, or it works on this host alone."""
    public = {
        name
        for name, function in inspect.getmembers(commands, inspect.isfunction)
        if function.__module__ == commands.__name__ and not name.startswith("_")
    }
    assert public - {"job_id", "marked_step"} == {name for name, *_ in BUILT} - {"question", "counts"}


@settings(max_examples=60)
@given(built())
def test_the_script_runs_all_that_we_build_and_we_build_all_that_it_runs(
    made: tuple[list[str], Build, Values],
) -> None:
    words, build, values = made
    assert script.refusal(words) == ""
    assert build(values) == tuple(words)


def test_each_line_of_the_script_is_the_form_of_something_that_we_build() -> None:
    used = {next(line for line in ALLOWED if re.match(script.shape(line), _sample(form))) for _, form, _, _ in BUILT}
    assert used == set(ALLOWED)


def _sample(form: str) -> str:
    values = {
        "columns": columns("jobid"), "signs": signs("%A"), "job": "12", "jobs": "12,3_1", "mark": MARK, "user": "ada",
        "fields": "JobID,State", "nodes": "gpu[001-002],x9", "node": "gpu001", "start": "now", "reason": "bad GPU",
        "time": "2026-12-01T00:00:00", "dependency": "afterok:12", "reservation": "relance-1",
        "path": "/home/ada/a.out", "switch": "1",
    }  # fmt: skip
    words = [word[1:-1] if word.startswith("[") else word for word in form.split()]
    return "".join(f"\0{word.format(**values)}" for word in words)


@settings(max_examples=60)
@given(built(), st.sampled_from(HOSTILE), st.integers(0, 20))
def test_one_word_more_is_refused(made: tuple[list[str], Build, Values], word: str, at: int) -> None:
    words = made[0]
    place = at % (len(words) + 1)
    assert script.refusal([*words[:place], word, *words[place:]])


@settings(max_examples=60)
@given(built(), st.sampled_from(HOSTILE), st.integers(0, 20))
def test_another_word_is_refused(made: tuple[list[str], Build, Values], word: str, at: int) -> None:
    words = made[0]
    place = at % len(words)
    assert script.refusal([*words[:place], word, *words[place + 1 :]])


@pytest.mark.parametrize(
    "words",
    [
        ["scontrol", "update", "NodeName=gpu001", "State=DOWN", "Reason=x"],
        ["scontrol", "update", "NodeName=gpu[001-002]", "State=UNDRAIN"],
        ["scontrol", "update", "NodeName=ALL", "State=DRAIN", "Reason=x"],
        ["scontrol", "update", "NodeName=all", "State=UNDRAIN"],
        ["scontrol", "update", "JobId=12", "ExcNodeList=gpu001,All,x9"],
        [
            "scontrol",
            "create",
            "reservation",
            "ReservationName=relance-1",
            "Nodes=aLL",
            *RESERVED.format(time="2026-12-01T00:00:00").split(),
        ],
        [
            "scontrol",
            "create",
            "reservation",
            "ReservationName=upgrade",
            "Nodes=gpu001",
            *RESERVED.format(time="2026-12-01T00:00:00").split(),
        ],
        ["scontrol", "delete", "ReservationName=upgrade"],
        ["scontrol", "update", "NodeName=ALL,x", "State=DRAIN", "Reason=x"],
        ["scontrol", "update", "JobId=12", "ExcNodeList=", "StartTime=now", "UserId=0"],
        ["scontrol", "update", "PartitionName=gpu", "State=DOWN"],
        ["scontrol", "reconfigure"],
        ["scontrol", "shutdown"],
        ["scontrol", "write", "config", "/tmp/x"],
        ["scontrol", "-M", "other", "requeue", "12"],
        ["scontrol", "requeue", "12,13"],
        ["scontrol", "requeue", "12\n"],
        ["scancel", "--user=ada"],
        ["scancel", "12", "13"],
        ["sbatch", "--wrap=id"],
        ["srun", "id"],
        ["/usr/bin/scontrol", "show", "config"],
        ["../scontrol", "show", "config"],
        ["sh", "-c", "id"],
        ["squeue"],
        [],
        [""],
        [12],
        "scontrol show config",
        None,
        {"argv": []},
    ],
)
def test_what_we_do_not_build_is_refused(words: object) -> None:
    assert script.refusal(words)


@pytest.mark.parametrize("name", ["ALL", "all", "aLl"])
def test_the_word_for_every_node_is_no_node(name: str) -> None:
    for build in (commands.undrain, lambda node: commands.drain(node, "bad"), lambda node: compress([node, "gpu001"])):
        with pytest.raises(BadArgumentError):
            build(name)
    with pytest.raises(BadArgumentError):
        commands.reserve("relance-1", name, 1 << 31)
    assert commands.undrain(f"{name}1")[2] == f"NodeName={name}1"
    assert script.refusal([*commands.undrain(f"{name}.x")]) == ""
    numbered = commands.update("12", Change(excluded_nodes=(f"{name}1", f"{name}2", f"x{name}")))
    assert script.refusal([*numbered]) == ""


@given(st.text(max_size=12))
def test_a_job_is_what_we_take_for_one(text: str) -> None:
    try:
        commands.job_id(text)
        is_one = True
    except BadArgumentError:
        is_one = False
    assert (script.refusal(["scancel", text]) == "") is is_one


def test_a_script_that_only_reads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "READ_ONLY", True)
    assert script.refusal(["scontrol", "show", "config"]) == ""
    assert "only reads" in script.refusal(["scancel", "12"])


def test_the_script_is_of_a_python_that_old_clusters_have() -> None:
    tree = ast.parse(script_text(), feature_version=(3, 6))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules <= sys.stdlib_module_names
    assert "dataclasses" not in modules  # since 3.7
    assert "capture_output" not in script_text()  # since 3.7


def test_what_is_chosen_at_the_script_s_side_is_written_into_it(tmp_path: Path) -> None:
    text = script_text(
        python="/opt/python/bin/python3", bin_dir="/opt/slurm/bin/", slurm_conf='/etc/s"l\nurm.conf', read_only=True
    )
    assert text.startswith("#!/opt/python/bin/python3 -IS\n")
    made: dict[str, object] = {"__name__": "made"}
    exec(compile(text, "made", "exec"), made)  # noqa: S102 - our own text
    assert (made["BIN_DIR"], made["SLURM_CONF"]) == ("/opt/slurm/bin", '/etc/s"l\nurm.conf')
    assert (made["READ_ONLY"], made["DIGEST"]) == (True, script.DIGEST)


def ask_script(tmp_path: Path, *requests: tuple[float, dict[str, object]]) -> list[dict[str, object]]:
    """The replies of a script whose `sdiag` prints "fine", to requests that are sent after pauses."""
    program = tmp_path / "bin" / "sdiag"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho fine\n")
    program.chmod(0o755)
    text = tmp_path / "script"
    text.write_text(script_text(bin_dir=str(program.parent)))
    replies = []
    with subprocess.Popen(
        [sys.executable, "-IS", str(text)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for pause_s, request in requests:
            assert running.stdout.readline().startswith(b"relance-slurm hello ")
            time.sleep(pause_s)
            running.stdin.write(json.dumps(request).encode() + b"\n")
            running.stdin.flush()
            header = json.loads(running.stdout.readline().removeprefix(b"relance-slurm reply "))
            replies.append({**header, "said": running.stdout.read(header["stdout"] + header["stderr"])})
        running.stdin.close()
        assert running.wait(timeout=30) == 0
    return replies


def test_one_session_answers_one_request_after_another(tmp_path: Path) -> None:
    good = {"argv": ["sdiag"], "limit_s": 30, "most_bytes": 1000, "token": ""}
    bad: list[dict[str, object]] = [
        {"argv": ["id"]}, {**good, "limit_s": 600}, {**good, "limit_s": "1"}, {**good, "most_bytes": 1 << 40},
        {**good, "token": "a b"}, {**good, "token": None}, {**good, "argv": "sdiag"},
    ]  # fmt: skip
    replies = ask_script(tmp_path, *((0.0, each) for each in (good, *bad, good)))
    assert [reply["said"] for reply in (replies[0], replies[-1])] == [b"fine\n", b"fine\n"]
    assert all("refused" in reply for reply in replies[1:-1])


def test_a_limit_counts_from_the_hello_so_that_a_late_request_is_not_run(tmp_path: Path) -> None:
    (late,) = ask_script(tmp_path, (0.5, {"argv": ["sdiag"], "limit_s": 0.4, "most_bytes": 1000, "token": ""}))
    assert late["never_ran"] == "the request came too late"
