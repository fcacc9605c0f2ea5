"""`relance banner`: five lines at the top of a restarted attempt's output, printed by the site's TaskProlog.

It stands between a job and its start, so it never fails one and never holds one up: whatever goes wrong, it prints
nothing and ends with 0, at the latest after its time limit. Where there is nothing to say it loads nothing. The
standard library only, and every import where it is needed: `relance` itself takes ten times as long to load.
"""

from __future__ import annotations

import os
import sys

LIMIT_S = 0.3
"""It ends after this long, whatever it waits for."""
SITE_FILE = "/etc/relance/server"
"""Holds the server's URL on one line."""
_MOST_BYTES = 16_384
_MOST_LINES = 8
_LINE_BYTES = 480
"""All lines together fit into what Slurm reads of a TaskProlog at once (4 KiB)."""


def main(argv: list[str] | None = None) -> int:
    """Print the banner, if there is one, as `print …` lines for slurmd; always 0."""
    words = sys.argv[1:] if argv is None else argv
    try:
        if not _is_wanted():
            return 0
        _give_up_after(_limit_s(words))
        lines = _banner()
        if lines:
            os.write(1, b"".join(b"print " + line + b"\n" for line in lines))
    except BaseException:  # noqa: BLE001, S110 - a banner is never worth a job
        pass
    return 0


def _is_wanted() -> bool:
    """Whether this is the first task of a step of an attempt that is not the job's first."""
    count = os.environ.get("SLURM_RESTART_COUNT", "")
    first = os.environ.get("SLURM_PROCID", "0") == "0"
    return first and count.isdigit() and int(count) > 0 and bool(os.environ.get("SLURM_JOB_ID"))


def _limit_s(words: list[str]) -> float:
    return float(words[1]) if words[:1] == ["--time-limit"] else LIMIT_S


def _give_up_after(limit_s: float) -> None:
    """End the process after so long: also while a name is looked up, which no signal can interrupt."""
    import _thread
    import time

    def end() -> None:
        time.sleep(limit_s)
        os._exit(0)

    _thread.start_new_thread(end, ())


def _banner() -> list[bytes]:
    """The lines, as bytes that are safe to print. Raises whatever goes wrong."""
    import json
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.parse import quote, urlencode, urlsplit

    from relance.slurm.munge import SCHEME, SOCKET_VARIABLE, Asked, Munge, credential

    url = urlsplit(_server())
    job, count = os.environ["SLURM_JOB_ID"], os.environ["SLURM_RESTART_COUNT"]
    query = {"restart_count": count, "cluster": os.environ.get("SLURM_CLUSTER_NAME", "")}
    known = urlencode({name: text for name, text in query.items() if text})
    target = f"{url.path.rstrip('/')}/api/v1/jobs/{quote(job, safe='')}/banner?{known}"
    proof = credential(
        Asked(method="GET", target=target, host=url.netloc), Munge(socket=os.environ.get(SOCKET_VARIABLE, ""))
    )
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=5)
    connection.request("GET", target, headers={"Host": url.netloc, "Authorization": f"{SCHEME} {proof}"})
    answer = connection.getresponse()
    if answer.status != 200:  # noqa: PLR2004 - HTTP
        return []
    return [_safe(line) for line in json.loads(answer.read(_MOST_BYTES))["lines"][:_MOST_LINES]]


def _server() -> str:
    url = os.environ.get("RELANCE_SERVER", "")
    if not url:
        with open(SITE_FILE, encoding="utf-8") as file:  # noqa: PTH123 - `pathlib` costs some milliseconds
            url = file.read().strip()
    return url if "://" in url else f"http://{url}"


def _safe(line: str) -> bytes:
    shown = "".join(char if char.isprintable() else " " for char in line)
    return shown.encode()[:_LINE_BYTES].decode(errors="ignore").encode()
