"""The files of an attempt on disk, and what is known beside them: what `diagnose` and `evaluate` open."""

from __future__ import annotations

import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from stat import S_ISREG

import yaml

from relance.cli.failures import ExitCode, FailureError
from relance.watching.evidence import Context, ContextError, EvidenceFile, context_of
from relance.watching.evidence.packed import Packed

CONTEXT = "context.yaml"
MOST_YAML_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20
_UTF_16 = (BOM_UTF16_LE, BOM_UTF16_BE)


def files_of(paths: tuple[Path, ...], skipped: frozenset[Path] = frozenset()) -> list[EvidenceFile]:
    """The files that are meant, but for those skipped and the context of a folder that is named.

    In one folder they are called by their path in it, else as they were named.
    """
    found: dict[str, EvidenceFile] = {}
    for path in paths:
        inside = _files_below(path) if path.is_dir() else [_plain(path)]
        for file in inside:
            if file in skipped or (path.is_dir() and file == path / CONTEXT):
                continue
            name = _text_of(file.relative_to(path) if path.is_dir() and len(paths) == 1 else file)
            packed = Packed(_chunks_of(file))
            found[name] = EvidenceFile(name=name, chunks=partial(_as_utf_8, packed.chunks), trouble=packed.trouble)
    return list(found.values())


def context_beside(paths: tuple[Path, ...], named: Path | None = None) -> tuple[Context, Path | None]:
    """What is known beside the logs, and the file that says so. Ends the command where that cannot be used."""
    beside = [path / CONTEXT for path in paths if path.is_dir() and (path / CONTEXT).is_file()]
    chosen = named or (beside[0] if len(beside) == 1 else None)
    if chosen is None:
        return Context(), None
    try:
        return context_of(read_yaml(chosen)), chosen
    except (YamlFileError, ContextError) as error:
        raise FailureError(f"cannot use {chosen}: {error}", code=ExitCode.USAGE) from error


class YamlFileError(ValueError):
    """A small YAML file cannot be read. Says why, in one line."""


def read_yaml(path: Path) -> object:
    """What a small YAML file holds. Raises YamlFileError."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_YAML_BYTES + 1)
        if len(data) > MOST_YAML_BYTES:
            message = "it is longer than 1 MiB"
            raise YamlFileError(message)
        return yaml.safe_load(data.decode("utf-8"))
    except OSError as error:
        raise YamlFileError(error.strerror or str(error)) from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise YamlFileError(" ".join(str(error).split())) from error


def _as_utf_8(chunks: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """The same text in UTF-8 where its first two bytes say that it is UTF-16, as other systems' shells write it."""
    decoder = None
    for number, chunk in enumerate(chunks()):
        if number == 0 and chunk.startswith(_UTF_16):
            decoder = getincrementaldecoder("utf-16")("replace")
        yield chunk if decoder is None else decoder.decode(chunk).encode("utf-8", "replace")


def _text_of(path: Path) -> str:
    """A path as text that can be written anywhere: names on Linux are bytes, and need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _plain(path: Path) -> Path:
    """A file that is named itself, if it has an end: a device or a pipe may have none, nor what a kernel makes up."""
    if _is_made_up(path) or (path.exists() and not path.is_file()):
        remedy = "copy what it gives into a file, and name that"
        raise FailureError(f"{path} is not a plain file", remedy, ExitCode.USAGE)
    return path


def _files_below(folder: Path) -> list[Path]:
    """The plain files of a folder and those below it, links and hidden ones left out."""
    if _is_made_up(folder):
        remedy = "copy what you mean into a folder, and name that"
        raise FailureError(f"{folder} is no folder of files on a disk", remedy, ExitCode.USAGE)
    return [
        file
        for file in sorted(folder.rglob("*"))
        if not any(part.startswith(".") for part in file.relative_to(folder).parts) and _is_regular(file)
    ]


def _is_made_up(path: Path) -> bool:
    """Whether the kernel makes it up as it is read: that may wait for ever, change, or have no end."""
    return bool({Path("/proc"), Path("/sys")} & {found := path.resolve(), *found.parents})


def _is_regular(file: Path) -> bool:
    """Whether it is a file with an end, and still there."""
    try:
        return S_ISREG(file.lstat().st_mode)
    except OSError:
        return False


def _chunks_of(file: Path) -> Callable[[], Iterable[bytes]]:
    def chunks() -> Iterator[bytes]:
        with file.open("rb") as handle:
            yield from iter(partial(handle.read, _CHUNK_BYTES), b"")

    return chunks
