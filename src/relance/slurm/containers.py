"""Slurm's commands inside a container, by a prefix that enters it, such as `kubectl exec -i POD --`.

What is entered is a shell with a constant script: it greets, waits for a mark and a token on its standard input, and
only then runs the command, inside the container's own `timeout`, as ending the prefix here does not end what runs
there. What the command prints stands between two marks that nobody can know beforehand: so what the prefix itself
prints, and its exit codes, are never taken for Slurm's.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relance.slurm.outputs import CONNECTION, Output, never_ran
from relance.slurm.processes import Heard, Manners, converse, no_end, nothing, only_greeted

_KEPT = (
    "CONTAINER_HOST", "DOCKER_HOST", "HOME", "HTTPS_PROXY", "KUBECONFIG", "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT", "LOGNAME", "NO_PROXY", "PATH", "SSL_CERT_FILE", "USER", "XDG_RUNTIME_DIR",
)  # fmt: skip
"""What the program of the prefix gets of our environment; nothing of it comes to the command."""
_INSIDE = r"""
has=no; command -v timeout >/dev/null 2>&1 && has=yes
began=$(date +%s)
echo "relance-container $(id -u) $(id -un 2>/dev/null) $has"
IFS= read -r mark || exit 0
IFS= read -r limit || exit 0
IFS= read -r token || exit 0
limit=$((began + limit - $(date +%s))); [ "$limit" -gt 0 ] || exit 0
for name in $(env | sed -n 's/^\(S[A-Z]*_[A-Z0-9_]*\)=.*/\1/p'); do
  case $name in
    SLURM_CONF|SLURM_JWT) ;;
    SLURM_*|SQUEUE_*|SACCT_*|SCONTROL_*|SCANCEL_*|SBATCH_*|SACCTMGR_*|SDIAG_*) unset "$name" ;;
  esac
done
export LC_ALL=C TZ=UTC SLURM_TIME_FORMAT=%s
[ -z "$1" ] || export SLURM_CONF="$1"
[ -z "$token" ] || export SLURM_JWT="$token"
shift
[ $has = no ] || set -- timeout -s KILL "$limit" "$@"
printf '%s\n' "$mark"; printf '%s\n' "$mark" >&2
"$@" </dev/null
code=$?
printf '%s %s\n' "$mark" "$code"; printf '%s\n' "$mark" >&2
"""
_GREETING = re.compile(rb"(?:\A|(?<=\n))relance-container (\d{1,10} [^\n]*)\n")
_GREETED = re.compile(r"(\d+) (\S*) ?(yes|no)\Z")
_OVERHEAD_BYTES = 128 << 10
_NOT_FOUND = (126, 127)
_KILLED = (124, 137)
"""What `timeout` ends with when the time is over; 137 is any KILL, of which nothing is known either."""
_REMEDIES = (
    ("not found", "see that it exists, and that its name and namespace are right"),
    ("forbidden", "our account there may not enter it: give it the right to exec (pods/exec)"),
    ("unauthorized", "our login there has run out: renew it"),
    ("unable to upgrade connection", "the node of the container does not answer: see that its kubelet is up"),
    ("connection refused", "the server that the prefix asks does not listen"),
    ("is not running", "start it"),
    ("completed pod", "it has ended: name one that runs"),
    ("operation not permitted", "our account here may not enter it"),
    ("permission denied", "our account here may not enter it"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container that has Slurm's commands; `prefix` is what enters it, up to the command."""

    prefix: tuple[str, ...]

    @property
    def name(self) -> str:
        """For people."""
        return " ".join(self.prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What the shell inside says: its account, and whether it has `timeout`."""

    account: tuple[str, int]
    has_timeout: bool


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """What the program of the prefix gets of our environment."""
    return {key: ours[key] for key in _KEPT if key in ours}


async def ask(
    container: Container,
    command: Sequence[str],
    given: tuple[str, str],
    *,
    time_limit_s: float,
    max_bytes: int,
    ours: Mapping[str, str],
) -> Output:
    """Run a command inside. `given` are the path of slurm.conf there and a token; either may be empty.

    Never raises for what becomes of it.
    """
    argv, (slurm_conf, token) = tuple(command), given
    mark = f"relance-{secrets.token_hex(16)}"

    def request(left_s: float, _since_s: float) -> bytes:
        # Whole seconds are what every `timeout` understands; they count from the greeting, as ours do.
        return f"{mark}\n{max(1, int(left_s))}\n{token}\n".encode()

    heard = await converse(
        (*container.prefix, "sh", "-c", _INSIDE, "relance", slurm_conf, *argv),
        environment(ours),
        Manners(greeting=_GREETING, end_of=no_end),
        request,
        time_limit_s=time_limit_s,
        max_bytes=max_bytes + _OVERHEAD_BYTES,
    )
    if heard.greeting is None:
        return never_ran(argv, why_unreached(container, heard), wall_s=heard.wall_s, unreached=CONNECTION)
    return _output(argv, heard, mark)


async def enter(container: Container, *, time_limit_s: float, ours: Mapping[str, str]) -> Heard:
    """Enter it, ask for nothing and hear what is said."""
    argv = (*container.prefix, "sh", "-c", _INSIDE, "relance", "")
    manners = only_greeted(_GREETING)
    return await converse(
        argv, environment(ours), manners, nothing, time_limit_s=time_limit_s, max_bytes=_OVERHEAD_BYTES
    )


def inside_of(heard: Heard) -> Inside | None:
    """What the shell said; None: it did not greet, or not in a form that is known."""
    found = _GREETED.match((heard.greeting or b"").decode("utf-8", "replace").strip())
    if found is None:
        return None
    return Inside(account=(found[2] or found[1], int(found[1])), has_timeout=found[3] == "yes")


def lacks_of(inside: Inside | None) -> str:
    """Why nothing may be changed this way; empty: nothing speaks against it."""
    if inside is not None and inside.has_timeout:
        return ""
    text = "there is no `timeout` inside the container: a command that hangs goes on there after we gave it up"
    return f"{text}; put coreutils into the image"


def why_unreached(container: Container, heard: Heard) -> str:
    """Why there was no greeting, with what mends it."""
    if heard.refused:
        return f"{heard.refused} Name the whole path of the program in access.prefix."
    said = " ".join(f"{heard.stderr} {heard.answer.decode('utf-8', 'replace')}".split())[:300]
    words = said.lower()
    remedy = next((each for sign, each in _REMEDIES if sign in words), "")
    if not remedy:
        remedy = "see that it runs and is not overloaded" if heard.is_late else "run `… sh -c true` by hand"
    end = "did not answer in time" if heard.is_late else f"ended with {heard.exit_code}"
    return f"the container cannot be entered: {remedy}. `{container.name}` {end}: {said or 'without a word'}"


def _output(argv: tuple[str, ...], heard: Heard, mark: str) -> Output:
    inside = inside_of(heard)
    account = inside.account if inside is not None else None
    begin, end = f"{mark}\n".encode(), re.compile(rf"{mark} (\d{{1,3}})\n\Z".encode())
    found = end.search(heard.answer) if heard.answer.startswith(begin) else None
    stderr = heard.stderr.split(f"{mark}\n")
    said = stderr[1] if len(stderr) > 1 else ""
    lost: str | None = None
    unreached = ""
    if heard.is_too_much:
        lost = "a longer answer than was allowed"
    elif heard.is_late:
        lost = f"no answer from inside the container within {heard.wall_s:.1f} s"
    elif found is None:
        lost, unreached = "the way into the container was lost after the command was handed over", CONNECTION
        said = heard.stderr
    elif int(found[1]) in _KILLED:
        lost = "it was ended inside the container at its limit"
    if found is not None and int(found[1]) in _NOT_FOUND:
        why = f"Cannot start {argv[0]} inside the container: {said.strip() or 'it is not there'}."
        return never_ran(argv, why, wall_s=heard.wall_s)
    return Output(
        argv=argv,
        exit_code=int(found[1]) if found is not None and lost is None else None,
        stdout=heard.answer[len(begin) : found.start()] if found is not None else b"",
        stderr=said,
        wall_s=heard.wall_s,
        gave_up=lost,
        unreached=unreached,
        account=account,
        lacks=lacks_of(inside),
    )
