"""relance-slurm: runs the few Slurm commands that Relance needs for whoever asks on standard input, and nothing else.

Install it on a login or control node (Python 3.6 or newer, nothing else), and make it the only thing that Relance's key
may do there, by a line of ~/.ssh/authorized_keys:

    restrict,command="/usr/local/bin/relance-slurm" ssh-ed25519 AAAA... relance

It says hello in one line, takes one line of JSON (argv, limit_s, most_bytes, token), runs the command if a line below
allows it, word by word and without a shell, answers with one line of JSON and the command's two outputs, and says hello
again. Arguments and SSH_ORIGINAL_COMMAND are not looked at. A command is killed at its limit, which counts from the
hello, and as soon as the connection goes away; after a minute without a request the script ends.
"""

# ruff: noqa: I002 - Python 3.6 does not know that import
import hashlib
import json
import os
import pwd
import re
import selectors
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BIN_DIR = ""  # folder of Slurm's commands; empty: PATH below
SLURM_CONF = ""  # the cluster's slurm.conf; empty: where Slurm looks by itself
READ_ONLY = False  # True: nothing that changes anything is run

# One command a line: {value} as below, [word] may be missing. Nothing else is run.
READS = """
squeue --all --local --array-unique --states=all [--jobs={job}] --Format={columns}
squeue --all --local --array-unique --states=all --jobs={job} --format={signs}
squeue --all --local --states=all [--jobs={jobs}] --json
squeue --all --local --steps [--jobs={jobs}] --format={signs}
scontrol --all show node
scontrol --all show reservation
scontrol show config
scontrol show federation
sacct --helpformat
sacct --duplicates --parsable --delimiter={mark} --format={fields} --jobs={jobs}
sacct --duplicates --parsable --delimiter={mark} --format={fields} --allusers --starttime={time}
sacctmgr --noheader --parsable2 --readonly show user name={user} withcoord format=User,AdminLevel,Coordinators
sdiag
"""
CHANGES = """
scontrol requeue [incomplete] {job}
scontrol requeuehold [incomplete] {job}
scontrol hold {job}
scontrol release {job}
scontrol update JobId={job} ExcNodeList={nodes} [StartTime={start}] [StdOut={path}]
scontrol update JobId={job} StartTime={start}
scontrol update JobId={job} Requeue={switch}
scontrol update JobId={job} Dependency={dependency}
scontrol update NodeName={node} State=DRAIN Reason={reason}
scontrol update NodeName={node} State=UNDRAIN
scontrol create reservation ReservationName={reservation} Nodes={node} StartTime=now EndTime={time} \
  Flags=MAINT,IGNORE_JOBS Users=root
scontrol delete ReservationName={reservation}
scancel {job}
"""
MARK = r"~[0-9a-f]{16,64}~"
JOB = r"[1-9][0-9]{0,9}(?:_[0-9]{1,7}|\+[0-9]{1,4})?"
TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
RANGE = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
NODE = r"(?![Aa][Ll][Ll](?![A-Za-z0-9._\[-]))[A-Za-z0-9][A-Za-z0-9._-]{0,254}"  # ALL is every node
NODES = NODE + r"(?:\[" + RANGE + "(?:," + RANGE + r")*\])?"
AFTER = r"(?:after|afterany|afterburstbuffer|aftercorr|afternotok|afterok)"
TERM = "(?:singleton|" + AFTER + r"(?::[0-9]{1,10}(?:_(?:[0-9]{1,7}|\*))?(?:\+[0-9]{1,7})?)+)"
VALUES = {
    "columns": "[a-z_]+:" + MARK + "(?:,[a-z_]+:" + MARK + ")*",
    "dependency": TERM + "(?:(?:," + TERM + r"){0,63}|(?:\?" + TERM + "){0,63})",
    "fields": "[A-Za-z]+(?:,[A-Za-z]+){0,60}",
    "job": JOB,
    "jobs": JOB + "(?:," + JOB + ")*",
    "mark": MARK,
    "node": NODE,
    "path": r"/[A-Za-z0-9_./%+@=:,~-]{0,1022}[A-Za-z0-9_%+@=:~-]",
    "switch": "[01]",
    "nodes": "(?:" + NODES + "(?:," + NODES + ")*)?",
    "reason": r"[A-Za-z0-9][A-Za-z0-9 .,:_/@+()-]{0,299}",
    "reservation": "relance-[A-Za-z0-9_-]{1,56}",
    "signs": "(?:%[A-Za-z]" + MARK + ")+",
    "start": "(?:now|" + TIME + ")",
    "time": TIME,
    "user": "[A-Za-z0-9._][A-Za-z0-9._-]{0,63}",
}
PROTOCOL = 1
DIGEST = hashlib.sha256(repr((PROTOCOL, READS, CHANGES, sorted(VALUES.items()))).encode()).hexdigest()[:12]
PATH = "/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin:/usr/local/slurm/bin"
LONGEST_S, MOST_REQUEST, MOST_BYTES, MOST_ERROR = 60.0, 1 << 20, 256 << 20, 64 << 10
STDIN = 0


def shape(line: str) -> str:
    """The regular expression of a line; its words are separated by NUL, which no argument can hold."""
    words = []
    for word in line.split():
        is_optional = word.startswith("[")
        parts = re.split(r"\{([a-z]+)\}", word[1:-1] if is_optional else word)
        text = "".join(VALUES[part] if at % 2 else re.escape(part) for at, part in enumerate(parts))
        words.append("(?:\0" + text + ")?" if is_optional else "\0" + text)
    return "".join(words) + r"\Z"


def refusal(argv: object) -> str:
    """Why this is not run; empty: it is."""
    if not isinstance(argv, list) or not all(isinstance(word, str) and "\0" not in word for word in argv):
        return "argv is not a list of words"
    text = "".join("\0" + word for word in argv)
    if any(re.match(shape(line), text) for line in READS.split("\n") if line):
        return ""
    if any(re.match(shape(line), text) for line in CHANGES.split("\n") if line):
        return "this script only reads: it was made with --read-only" if READ_ONLY else ""
    return "not a command that this script runs"


def asked(began: float) -> "dict[str, Any]":
    """The request, or why there is none; empty: nobody asks any more."""
    data = b""
    while b"\n" not in data:
        piece = os.read(STDIN, 65536) if waits(began + LONGEST_S) else b""
        if not piece:
            return {}
        data += piece
        if len(data) > MOST_REQUEST:
            return {"refused": "the request is too long"}
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError):
        return {"refused": "the request is not JSON"}
    return found if isinstance(found, dict) else {"refused": "the request is not an object"}


def waits(until: float) -> bool:
    """Whether there is something to read before that time."""
    with selectors.DefaultSelector() as inputs:
        inputs.register(STDIN, selectors.EVENT_READ)
        return bool(inputs.select(max(0.0, until - time.monotonic())))


def environment(token: str) -> "dict[str, str]":
    """All that the command gets: English words, times as seconds, nothing of the caller's."""
    me = pwd.getpwuid(os.getuid())
    found = {"HOME": me.pw_dir, "LC_ALL": "C", "LOGNAME": me.pw_name, "PATH": PATH, "SLURM_TIME_FORMAT": "%s"}
    found.update({"TZ": "UTC", "USER": me.pw_name})
    found.update({"SLURM_CONF": SLURM_CONF} if SLURM_CONF else {})
    found.update({"SLURM_JWT": token} if token else {})
    return found


def answer(header: "dict[str, Any]", stdout: bytes = b"", stderr: bytes = b"") -> None:
    """Say what came of it: one line, then both outputs, whose lengths are in it."""
    header.update({"stdout": len(stdout), "stderr": len(stderr)})
    for data in (b"relance-slurm reply " + json.dumps(header).encode() + b"\n", stdout, stderr):
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End the command and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    process.wait()


def listen(process: "subprocess.Popen[bytes]", until: float, most: int) -> "tuple[bytes, bytes, str]":
    """Both outputs to their ends, and why that was given up; empty: it was not."""
    heard = {1: bytearray(), 2: bytearray()}
    with selectors.DefaultSelector() as inputs:
        inputs.register(STDIN, selectors.EVENT_READ, 0)
        for number, pipe in ((1, process.stdout), (2, process.stderr)):
            inputs.register(pipe or STDIN, selectors.EVENT_READ, number)
        while len(inputs.get_map()) > 1:
            ready = inputs.select(max(0.0, until - time.monotonic()))
            if not ready:
                return bytes(heard[1]), bytes(heard[2]), "no answer from Slurm within its limit"
            for key, _ in ready:
                piece = os.read(key.fd, 65536)
                if not piece and key.data == STDIN:
                    return b"", b"", "the connection went away"
                if not piece:
                    inputs.unregister(key.fileobj)
                elif key.data != STDIN:
                    heard[key.data] += piece
                if len(heard[1]) > most:
                    return b"", b"", f"an answer of more than {most} bytes"
                del heard[2][MOST_ERROR:]
    return bytes(heard[1]), bytes(heard[2]), ""


def run(argv: "list[str]", until: float, most: int, token: str) -> None:
    """Run an allowed command to its end or its limit, and answer."""
    path = f"{BIN_DIR}/{argv[0]}" if BIN_DIR else argv[0]
    last_s = int(until - time.monotonic()) + 2
    try:
        process = subprocess.Popen(
            [path, *argv[1:]],
            env=environment(token),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
            preexec_fn=lambda: signal.alarm(last_s),  # noqa: PLW1509 - it ends even if this script is killed
        )
    except OSError as error:
        answer({"never_ran": f"Cannot start {path}: {error.strerror or error}."})
        return
    stdout, stderr, gave_up = listen(process, until, most)
    try:
        code = process.wait(0 if gave_up else max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        gave_up = gave_up or "no end within its limit"
    if gave_up:
        kill(process)
        answer({"gave_up": gave_up}, b"", stderr)
    else:
        answer({"exit_code": code}, stdout, stderr)


def order(request: "dict[str, Any]") -> "tuple[str, list[str], float, int, str]":
    """Why a request is refused (empty: it is not), and its values."""
    argv: Any = request.get("argv")
    limit_s: Any = request.get("limit_s")
    most: Any = request.get("most_bytes")
    token: Any = request.get("token")
    why = request.get("refused") or refusal(argv)
    if not isinstance(limit_s, (int, float)) or not 0 < limit_s <= LONGEST_S:
        why = why or f"limit_s is not a time of at most {LONGEST_S:.0f} s"
    if not isinstance(most, int) or not 0 < most <= MOST_BYTES:
        why = why or f"most_bytes is not a number of at most {MOST_BYTES}"
    if not isinstance(token, str) or not re.match(r"[A-Za-z0-9._~+/=-]{0,16384}\Z", token):
        why = why or "the token is none"
    return ("" if not why else str(why)), argv, limit_s, most, token


def serve() -> bool:
    """Say hello, take one request, answer it; says whether there may be another one."""
    began, me = time.monotonic(), pwd.getpwuid(os.getuid())
    hello = {"protocol": PROTOCOL, "digest": DIGEST, "read_only": READ_ONLY, "user": me.pw_name, "uid": me.pw_uid}
    sys.stdout.write("relance-slurm hello " + json.dumps(hello) + "\n")
    sys.stdout.flush()
    request = asked(began)
    if not request:
        return False
    why, argv, limit_s, most, token = order(request)
    if why:
        answer({"refused": why})
    elif began + limit_s <= time.monotonic():
        answer({"never_ran": "the request came too late"})
    else:
        run(argv, began + limit_s, most, token)
    return True


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    while serve():
        pass
