"""Stacks of processes as values: from `py-spy dump` (text and JSON), faulthandler, and Python tracebacks.

One file may hold several processes, one after the other or with labels of ranks before their lines. Of each process the
main thread speaks; helpers, such as workers that load data and the launcher, are told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from relance.domain.log_labels import read_label
from relance.traces.documents import begins_as_json, items, lines_of, mapping, natural, read_json, text
from relance.traces.places import rank_in_name
from relance.traces.signs import TraceFile, UnreadableTraceError

MAX_PROCESSES = 20_000
MAX_FRAMES = 400_000
"""Frames kept of one file."""
MAX_DEPTH = 200
"""Frames kept of one thread, the innermost."""

_PROCESS = re.compile(r"Process (\d{1,9}): ?(.*)")
_PARENT = re.compile(r"Parent Process \d+:")
_SPY_THREAD = re.compile(r"Thread (\S{1,30})(?: \((\w[\w +]*)\))?(?:: \"(.*)\")?$")
_SPY_FRAME = re.compile(r" {4}(\S.*) \((.+?)(?::(\d{1,7}))?\)$")
_HANDLER_THREAD = re.compile(
    r"(?:(?:Current thread|Thread) 0x[0-9a-fA-F]+(?: \[.*\])?|Stack) \(most recent call first\)"
)
_PYTHON_FRAME = re.compile(r" *File \"(.+?)\", line (\d{1,7})(?:,)? in (\S.*)$")
_TRACEBACK = re.compile(r"Traceback \(most recent call (last|first)\):")
_DUMP_BEGINS = re.compile(r"Fatal Python error:|Timeout \(\d+:\d\d:\d\d")
_RANK_ARGUMENT = re.compile(r"(?:^|[\s\0])(?:--(?:global[-_])?rank|RANK)[= ](\d{1,6})(?=$|[\s\0])")
_NATIVE = re.compile(r"\.so(?:\.[\d.]+)?$|^0x[0-9a-f]+$")
_CHILD = (
    "multiprocessing.spawn",
    "multiprocessing.forkserver",
    "pt_data_worker",
    "dataloader worker",
    "compile_worker",
    "resource_tracker",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A call: function, the last two parts of the file's path, line."""

    function: str
    file: str
    line: int | None = None

    def __str__(self) -> str:
        """As a person reads it."""
        return f"{self.function} ({self.file}{'' if self.line is None else f':{self.line}'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Where the main thread of a process stands, innermost call first. `helper` processes train nothing themselves."""

    frames: tuple[Frame, ...]
    file: str
    line: int = 1
    rank: int | None = None
    pid: int | None = None
    node: str | None = None
    helper: bool = False

    @property
    def name(self) -> str:
        """The process for a sentence."""
        if self.rank is not None:
            return f"rank {self.rank}"
        return f"process {self.pid} of {self.file}" if self.pid is not None else f"a process of {self.file}"


@dataclass(kw_only=True)
class _Thread:
    name: str = ""
    frames: list[Frame] = field(default_factory=list)
    outermost_first: bool = False


@dataclass(kw_only=True)
class _Process:
    line: int
    pid: int | None = None
    command: str = ""
    child: bool = False
    spy: bool = False
    threads: list[_Thread] = field(default_factory=list)


def read_stacks(file: TraceFile) -> tuple[Stack, ...]:
    """The stacks in a file.

    Raises:
        UnreadableTraceError: It is too large or holds no stack.
    """
    if begins_as_json(file.data):
        found = [_stack(each, file, None) for each in _of_json(file.data)]
    else:
        found = []
        for rank, lines in _by_writer(file.data).items():
            found += [_stack(each, file, rank) for each in _processes(lines)]
    stacks = [stack for stack in found if stack is not None]
    if not stacks:
        raise UnreadableTraceError(
            "The file holds no stack of a Python process. Take one with `py-spy dump --pid PID`, or with faulthandler."
        )
    alone = [stack for stack in stacks if not stack.helper]
    named = file.rank if file.rank is not None else rank_in_name(file.name)
    if len(alone) == 1 and alone[0].rank is None and named is not None:
        stacks = [replace(stack, rank=named) if stack is alone[0] else stack for stack in stacks]
    return tuple(stacks)


def _by_writer(data: bytes) -> dict[int | None, list[tuple[int, str]]]:
    """Lines by the rank in their label; those without a label are one writer's."""
    found: dict[int | None, list[tuple[int, str]]] = {}
    for number, line in lines_of(data):
        label = read_label(line[:400].encode("utf-8", "replace"))
        rank = label.best_rank
        body = line.encode("utf-8", "replace")[label.length :].decode("utf-8", "replace") if rank is not None else line
        found.setdefault(rank, []).append((number, body))
    return found


def _processes(lines: list[tuple[int, str]]) -> Iterator[_Process]:
    """The processes in lines of one writer."""
    process: _Process | None = None
    kept = count = 0
    for number, line in lines:
        begun = _begun(process, number, line)
        if begun is not None:
            if process is not None:
                yield process
                count += 1
            process = begun
            if count >= MAX_PROCESSES:
                return
        if process is not None and kept < MAX_FRAMES:
            kept += _take(process, line)
    if process is not None:
        yield process


def _begun(process: _Process | None, number: int, line: str) -> _Process | None:
    """A new process, if the line begins one."""
    header = _PROCESS.match(line)
    if header is not None:
        return _Process(line=number, pid=int(header[1]), command=header[2], spy=True)
    if _DUMP_BEGINS.search(line):
        return _Process(line=number)
    starts_thread = _HANDLER_THREAD.match(line) or _TRACEBACK.search(line)
    if starts_thread and (process is None or (_TRACEBACK.search(line) and process.threads)):
        return _Process(line=number)
    if process is None and _SPY_THREAD.match(line):
        return _Process(line=number, spy=True)
    return None


def _take(process: _Process, line: str) -> int:
    """Take in a line of a process; how many frames it gave."""
    if _PARENT.match(line):
        process.child = True
        return 0
    spy_thread = _SPY_THREAD.match(line) if process.spy else None
    if spy_thread is not None:
        process.threads.append(_Thread(name=spy_thread[3] or ""))
        return 0
    if _HANDLER_THREAD.match(line):
        process.threads.append(_Thread())
        return 0
    traceback = _TRACEBACK.search(line)
    if traceback is not None:
        process.threads.append(_Thread(outermost_first=traceback[1] == "last"))
        return 0
    frame = _frame(line, spy=process.spy)
    if frame is None or not process.threads:
        return 0
    thread = process.threads[-1]
    thread.frames.append(frame)
    if len(thread.frames) > MAX_DEPTH:
        del thread.frames[0 if thread.outermost_first else -1]
    return 1


def _frame(line: str, *, spy: bool) -> Frame | None:
    found = _SPY_FRAME.match(line) if spy else None
    if found is not None:
        return _shown(found[1], found[2], int(found[3]) if found[3] else None)
    python = _PYTHON_FRAME.match(line)
    return _shown(python[3], python[1], int(python[2])) if python is not None else None


def _shown(function: str, path: str, line: int | None) -> Frame:
    return Frame(function=function[:120], file="/".join(path.replace("\\", "/").split("/")[-2:])[:120], line=line)


def _of_json(data: bytes) -> Iterator[_Process]:
    """py-spy's JSON: a list of threads, each with its process; a file may have several such lists in a list."""
    told = read_json(data)
    lists = [told] if any(isinstance(each, dict) for each in items(told)) else items(told)
    found: dict[object, _Process] = {}
    kept = 0
    for at, threads in enumerate(lists):
        for each in items(threads):
            thread = mapping(each)
            frames = [_json_frame(mapping(frame)) for frame in items(thread.get("frames"))[:MAX_DEPTH]]
            kept += len(frames)
            if kept > MAX_FRAMES or not frames:
                continue
            pid = natural(thread.get("pid"))
            info = mapping(thread.get("process_info"))
            process = found.setdefault(
                (at, pid), _Process(line=1, pid=pid, spy=True, command=text(info.get("command_line"), most=2000))
            )
            process.threads.append(_Thread(name=text(thread.get("thread_name")), frames=frames))
    return iter(list(found.values())[:MAX_PROCESSES])


def _json_frame(frame: Any) -> Frame:  # noqa: ANN401 - JSON data
    path = text(frame.get("short_filename"), most=400) or text(frame.get("filename"), most=400)
    return _shown(text(frame.get("name")), path, natural(frame.get("line")) or None)


def _stack(process: _Process, file: TraceFile, rank: int | None) -> Stack | None:
    threads = [thread for thread in process.threads if thread.frames]
    if not threads:
        return None
    main = next((thread for thread in threads if thread.name == "MainThread"), threads[0 if process.spy else -1])
    inner = main.frames[::-1] if main.outermost_first else main.frames
    frames = tuple(frame for frame in inner if not _NATIVE.search(frame.file)) or tuple(inner)
    told = _RANK_ARGUMENT.search(process.command)
    named = rank if rank is not None else int(told[1]) if told is not None else None
    return Stack(
        frames=frames,
        file=file.name,
        line=process.line,
        rank=named,
        pid=process.pid,
        node=file.node,
        helper=process.child or any(word in process.command for word in _CHILD) or _helps(frames),
    )


def _helps(frames: tuple[Frame, ...]) -> bool:
    """Whether a process loads data for others, compiles for them, or starts and watches them."""
    files = {frame.file for frame in frames}
    if files & {"_utils/fetch.py", "_utils/pin_memory.py"} and "data/dataloader.py" not in files:
        return True
    return any(
        (frame.function, frame.file) == ("_worker_loop", "_utils/worker.py")
        or "elastic/" in frame.file
        or frame.function in {"_monitor_workers", "launch_agent", "_invoke_run"}
        or "compile_worker" in frame.file
        for frame in frames
    )
