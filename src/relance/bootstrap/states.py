"""The state folder: what lies where, and who may read it."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from relance.config import SettingError, Settings, read_secret

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFolder:
    """The paths below a state folder."""

    path: Path

    @property
    def database(self) -> Path:
        """The embedded database."""
        return self.path / "relance.db"

    @property
    def admin_token(self) -> Path:
        """The token that the command line reads by itself."""
        return self.path / "admin-token"

    @property
    def agent_token(self) -> Path:
        """The token that watchers and controllers on this machine use."""
        return self.path / "agent-token"

    @property
    def server_file(self) -> Path:
        """Where the server says how it is reached."""
        return self.path / "server.json"

    @property
    def session_key(self) -> Path:
        """The key that signs the console's sessions."""
        return self.path / "session-key"

    def controller(self, cluster: str) -> Path:
        """A controller's own folder: its ledger, and the file STOP."""
        return self.path / "controllers" / cluster


def open_state(settings: Settings) -> StateFolder:
    """The state folder, made with mode 0700 when it is missing.

    Raises SettingError when it cannot be made, or others may read it.
    """
    folder = StateFolder(path=settings.state_dir)
    try:
        folder.path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        status = folder.path.stat()
    except OSError as error:
        message = f"cannot use the state folder {folder.path}: {error.strerror}"
        raise SettingError(message) from error
    if status.st_uid != os.geteuid():
        message = f"the state folder {folder.path} belongs to uid {status.st_uid}, not to us: set state_dir to another"
        raise SettingError(message)
    if status.st_mode & 0o077:
        message = f"the state folder {folder.path} can be read by others: chmod 700 {folder.path}"
        raise SettingError(message)
    return folder


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 in one step, so that nobody reads half of it."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _FILE_MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def session_key(folder: StateFolder) -> bytes:
    """The key that signs sessions, made at the first start. Raises SettingError when it is no such key."""
    if not folder.session_key.exists():
        write_private(folder.session_key, secrets.token_hex(32) + "\n")
    try:
        return bytes.fromhex(read_secret(folder.session_key))
    except ValueError as error:
        message = f"{folder.session_key} holds no key: remove it, and a new one is made (sessions end)"
        raise SettingError(message) from error


def say_where(folder: StateFolder, url: str) -> None:
    """Write down how the server is reached, for the command line and for agents on this machine."""
    write_private(folder.server_file, json.dumps({"url": url, "pid": os.getpid()}) + "\n")


def server_url(settings: Settings, folder: StateFolder) -> str:
    """How the server is reached: as set, else as it said in the state folder. Raises SettingError."""
    if settings.agent.server:
        return settings.agent.server.rstrip("/")
    try:
        return str(json.loads(folder.server_file.read_text(encoding="utf-8"))["url"]).rstrip("/")
    except (OSError, ValueError, KeyError) as error:
        message = f"no server is known: set agent.server, or start `relance server` with state_dir {folder.path} first"
        raise SettingError(message) from error


def database_url(settings: Settings, folder: StateFolder) -> str:
    """The database: as set, from its secret file, or SQLite in the state folder."""
    if settings.server.database_file is not None:
        return read_secret(settings.server.database_file)
    return settings.server.database or f"sqlite:///{folder.database}"
