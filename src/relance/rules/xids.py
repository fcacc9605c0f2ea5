"""The table of Xids as rules: one entry a code becomes a rule over all shapes that the driver's line has had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from relance.rules.entries import CodeEntry, KindEntry

# The driver's line is `NVRM: Xid (<where>): <code>, pid=<n>, name=<process>, <text>`. Older drivers leave out `PCI:`,
# pid or name; what they do not know is <unknown>, in quotes or not; a GPU that is split adds GPU-I and GPU-CI.
_HEAD: Final = r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:]+(?:\.[0-9a-fA-F])?)[^)\n]{0,40}\): "
_PROCESS: Final = (
    r"(?: pid='?(?:(?P<pid>\d+)|<unknown>)'?,)?"
    r"(?: name='?(?:<unknown>|(?P<process>[^,'\n]{1,80}))'?,)?"
)
_SHAPES: Final = (
    "[ 8812.118402] NVRM: Xid (PCI:0000:3b:00): {code}, pid=4411, name=python, {text}",
    "2026-05-02T11:12:00Z cn7 kernel: NVRM: Xid (PCI:0000:9a:00): {code}, pid='<unknown>', name=<unknown>, {text}",
    "[Sat May  2 11:12:00 2026] NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): {code}, {text}",
    "May  2 11:12:00 cn07 kernel: [ 8812.118402] NVRM: Xid (0000:5e:00): {code}, {text}",
)
_OTHERS: Final = (
    "[ 8812.118402] NVRM: Xid (PCI:0000:3b:00): {other}, pid={code}, name=python, Ch 00000{code}",
    "[    7.300112] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.{code}.06",
)


def as_rule(entry: CodeEntry, kinds: Mapping[str, KindEntry]) -> dict[str, Any]:
    """The rule of one code, as a file would have it; fields that neither it nor its kind gives are not there."""
    kind = kinds.get(entry.kind)
    judged = {} if kind is None else kind.model_dump(exclude={"on_repeat"})
    own = entry.model_dump(include=set(KindEntry.model_fields), exclude_none=True)
    told = {"name": entry.name, "immediate": entry.immediate, "investigate": entry.investigate, "note": entry.note}
    told["on-repeat"] = None if kind is None else kind.on_repeat
    buckets = " and ".join(part for part in (entry.immediate, entry.investigate) if part)
    where = {"code": entry.code, "text": entry.text, "other": 13 if entry.code == 45 else 45}  # noqa: PLR2004 - any other
    return {
        **judged,
        **own,
        "id": f"xid-{entry.code}" + (f"-{entry.suffix}" if entry.suffix else ""),
        "title": entry.says,
        "pattern": f"{_HEAD}(?P<xid>{entry.code}),{_PROCESS}{entry.tail}",
        "scopes": ["kernel"],
        "source": f"NVIDIA Xid catalogue r580 ({buckets})" if buckets else "NVIDIA's open kernel modules, nverror.h",
        "details": {name: text for name, text in told.items() if text},
        "fallback": entry.fallback,
        "hit": [shape.format(**where) for shape in _SHAPES],
        "miss": [*(shape.format(**where) for shape in _OTHERS), *entry.miss],
    }
