"""How Slurm's commands are reached: on this host, on another one by SSH, or in a container."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

_ENTERING = frozenset({"crictl", "docker", "kubectl", "nerdctl", "oc", "podman"})
"""Programs whose `exec` needs `-i` to hand our input on."""
_TERMINALS = frozenset({"-t", "-it", "-ti", "--tty", "--tty=true"})
_INPUTS = frozenset({"-i", "--interactive", "--interactive=true", "--stdin", "--stdin=true"})
_REMOTE_SHELLS = frozenset({"ssh", "rsh"})


class _Strict(BaseModel):
    """A group of settings; a name that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LocalAccess(_Strict):
    """Slurm's commands of this host."""

    kind: Literal["local"] = "local"
    """Where the commands are: `local`, `ssh` or `container`."""


class SshAccess(_Strict):
    """Slurm's commands of a login or control node, by OpenSSH's client and the script `relance-slurm` there."""

    kind: Literal["ssh"]
    """Where the commands are."""
    host: str = Field(max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]*$")
    """The node's name or address."""
    user: str = Field(default="", max_length=64, pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$")
    """The account there; empty: the one that Relance runs as here, or as ssh's own settings say."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The port of sshd; unset: 22, or as ssh's own settings say."""
    key_file: Path | None = None
    """The private key, of mode 0600 and without a passphrase; unset: what ssh finds by itself."""
    known_hosts: Path | None = None
    """The file that has the node's host key; unset: those of the account and of this machine."""
    script: str = Field(default="relance-slurm", max_length=255, pattern=r"^[A-Za-z0-9_/][A-Za-z0-9_./-]*$")
    """The one word that is run there; another one where one node serves several clusters."""
    connect_timeout_s: Annotated[int, Field(ge=1, le=8)] = 5
    """How long a connection may take to be made."""

    @field_validator("key_file", "known_hosts")
    @classmethod
    def _is_absolute(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_absolute():
            message = f"{path} is not an absolute path"
            raise ValueError(message)
        return path


class ContainerAccess(_Strict):
    """Slurm's commands in a container, behind a prefix such as `kubectl exec -i POD --`."""

    kind: Literal["container"]
    """Where the commands are."""
    prefix: tuple[str, ...] = Field(min_length=1, max_length=64)
    """What enters the container, as an argument list up to the command."""

    @model_validator(mode="after")
    def _hands_on_what_is_said(self) -> Self:
        program, words = PurePosixPath(self.prefix[0]).name, set(self.prefix[1:])
        if any(not word or "\0" in word for word in self.prefix):
            message = "prefix has an empty word"
            raise ValueError(message)
        if program in _REMOTE_SHELLS:
            message = "a prefix may not be ssh, whose other side reads words as a shell does: use `kind: ssh`"
            raise ValueError(message)
        if program in _ENTERING and words & _TERMINALS:
            message = f"take the terminal (-t) out of prefix: it changes what {program} hands on"
            raise ValueError(message)
        if program in _ENTERING and not words & _INPUTS:
            message = f"prefix needs -i, or {program} does not hand on what is asked"
            raise ValueError(message)
        return self


AccessSettings = Annotated[
    Annotated[LocalAccess, Tag("local")]
    | Annotated[SshAccess, Tag("ssh")]
    | Annotated[ContainerAccess, Tag("container")],
    Discriminator(lambda value: value.get("kind", "local") if isinstance(value, dict) else value.kind),
]
"""Where Slurm's commands are, by kind; without one they are on this host."""


def place_of(access: LocalAccess | SshAccess | ContainerAccess) -> str:
    """What tells one way from another; empty: this host."""
    match access:
        case SshAccess():
            return f"{access.user}@{access.host}:{access.port or ''} {access.script}"
        case ContainerAccess():
            return " ".join(access.prefix)
        case LocalAccess():
            return ""
