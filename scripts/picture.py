"""Makes the pictures of the README: the demonstration's last screen, and the console's page of one incident.

The demonstration itself writes its screen as SVG. The page needs Chromium; without it only the screen is made.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    from http.client import HTTPResponse

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
JOB = "llama-node"
WINDOW = "1280,1900"
LIMIT_S = 240
_HELD_OPEN_S = 20.0
_PASSED_ON = ("content-type", "content-security-policy")


def main() -> int:
    """Make them; 0 when the demonstration came out right."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="relance-demo-") as folder:
        argv = [sys.executable, "-m", "relance", "demo", "--headless", "--keep-running", "--folder", folder]
        demo = subprocess.Popen([*argv, "--picture", str(PICTURES / "demo.svg")], stdout=subprocess.PIPE, text=True)
        try:
            is_good = follow(demo)
            chromium = shutil.which("chromium")
            if is_good and chromium is not None:
                take(chromium, Path(folder) / "state", PICTURES / "incident.png")
            elif chromium is None:
                print("no chromium: the console's picture was not made")
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(30)
    return 0 if is_good else 1


def follow(demo: subprocess.Popen[str]) -> bool:
    """Pass on what the demonstration says, until it keeps everything running; whether all came out right."""
    is_good = False
    for line in demo.stdout or ():
        print(line, end="", flush=True)
        is_good = is_good or "All came out right" in line
        if "Ctrl-C here ends everything" in line:
            return is_good
    return False


def take(chromium: str, state: Path, target: Path) -> None:
    """Have Chromium take a picture of the incident's page."""
    server = urlsplit(str(json.loads((state / "server.json").read_text(encoding="utf-8"))["url"]))
    token = (state / "admin-token").read_text(encoding="utf-8").strip()
    host = f"{server.hostname}:{server.port}"
    incident = incident_of(host, token)
    with ThreadingHTTPServer(("127.0.0.1", 0), _with_cookie(host, log_in(host, token))) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        profile = tempfile.mkdtemp(prefix="relance-chromium-")
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--hide-scrollbars",
        ]
        options += [f"--user-data-dir={profile}", f"--window-size={WINDOW}", f"--screenshot={target}"]
        url = f"http://127.0.0.1:{proxy.server_port}/incidents/{incident}"
        subprocess.run([chromium, *options, url], check=True, timeout=LIMIT_S, capture_output=True)
        shutil.rmtree(profile, ignore_errors=True)
        proxy.shutdown()
    print(target)


def incident_of(host: str, token: str) -> str:
    """The incident of the job whose node broke."""
    response = ask(host, "GET", "/api/v1/incidents", headers={"Authorization": f"Bearer {token}"})
    found = [item["id"] for item in json.loads(response.read()) if item["name"] == JOB]
    return str(found[-1])


def log_in(host: str, token: str) -> str:
    """Log in to the console; gives the cookie."""
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{host}"}
    response = ask(host, "POST", "/login", urlencode({"token": token, "next": "/"}), headers)
    return str(response.headers["set-cookie"]).partition(";")[0]


def ask(host: str, method: str, path: str, body: str = "", headers: dict[str, str] | None = None) -> HTTPResponse:
    """One request to the server."""
    connection = http.client.HTTPConnection(host, timeout=20)
    connection.request(method, path, body, headers or {})
    return connection.getresponse()


def _with_cookie(host: str, cookie: str) -> type[BaseHTTPRequestHandler]:
    """A browser without a keyboard cannot log in: this hands its requests on with the session's cookie."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/api/"):
                self._hold_open()
                return
            answer = ask(host, "GET", self.path, headers={"Cookie": cookie})
            body = answer.read()
            self.send_response(answer.status)
            for name in _PASSED_ON:
                if value := answer.headers.get(name):
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _hold_open(self) -> None:
            """A stream of events in which nothing happens: what the page shows is what it was sent."""
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(b"event: ready\ndata: {}\n\n")
                time.sleep(_HELD_OPEN_S)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    return Handler


if __name__ == "__main__":
    sys.exit(main())
