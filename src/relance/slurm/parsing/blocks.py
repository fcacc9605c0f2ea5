"""The key=value blocks of `scontrol show node | partition | reservation`: text that only administrators write.

Jobs are not read this way: a line break in a job's name is enough to forge a field there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from relance.slurm.parsing.values import unreadable

_KEY = re.compile(r"(?:^|\s+)([A-Za-z][A-Za-z0-9_/:.]*)=")
_FREE_TEXT = frozenset({"Reason", "Comment", "Extra", "OS", "InstanceId", "InstanceType"})
"""Keys whose value runs to the end of its line, and over the lines below that start with no key."""


def read_blocks(output: bytes, *, first_key: str, nothing: str | None = None) -> Sequence[Mapping[str, str]]:
    """One mapping for each block; none only where the answer is the sentence `nothing`.

    Raises:
        UnreadableError: Not such blocks, or a block that has a key twice.
    """
    text = output.decode("utf-8", "replace")
    if nothing is not None and text.strip() == nothing:
        return []
    if not text.endswith("\n"):
        raise unreadable(f"the end of the blocks of {first_key}", text[-200:])
    blocks: list[dict[str, str]] = []
    last_free: str | None = None
    for line in text.split("\n"):
        shown = line.strip()
        if not shown:
            last_free = None
        elif line.startswith(f"{first_key}="):
            blocks.append({})
            last_free = _read_line(shown, blocks[-1])
        elif not blocks or not line.startswith(" "):
            raise unreadable(f"a line of the blocks of {first_key}", line)
        elif last_free is not None and _KEY.match(shown) is None:
            blocks[-1][last_free] += f" {shown}"
        else:
            last_free = _read_line(shown, blocks[-1])
    if not blocks:
        raise unreadable(f"any block of {first_key}", text[:200])
    return blocks


def _read_line(line: str, block: dict[str, str]) -> str | None:
    """Put the line's pairs into the block; the key of free text that ends the line, if one does."""
    matches = list(_KEY.finditer(line))
    if not matches or matches[0].start() != 0:
        raise unreadable("a line of keys and values", line)
    for index, match in enumerate(matches):
        key = match[1]
        if key in block:
            raise unreadable(f"a block with {key} twice", line)
        if key in _FREE_TEXT:
            block[key] = line[match.end() :]
            return key
        end = matches[index + 1].start() if index + 1 < len(matches) else len(line)
        block[key] = line[match.end() : end].strip()
    return None
