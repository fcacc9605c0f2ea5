"""Writes the reference pages that the code itself can tell: events, the incident's states, settings, rules.

`python scripts/reference_pages.py` writes them; with `--check` it only says which are out of date (exit code 1).
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from relance.config import access as access_settings
from relance.config import providers as provider_settings
from relance.config import settings as settings_module
from relance.config import sources as source_settings
from relance.config.evidence import EvidenceSettings
from relance.config.gates import OptInSettings, QuietHoursSettings
from relance.domain import events as e
from relance.domain.incidents import TRANSITIONS, IncidentState
from relance.domain.limits import Limits
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.rules.pages import render

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"


def events_page() -> str:
    """All event types, by the kind of stream that they belong to."""
    lines = ["# Events", "", "Every fact in the history is one of these. Fields are those of the stored JSON.", ""]
    for title, union in (
        ("Job streams", e.JobEvent),
        ("Node streams", e.NodeEvent),
        ("Cluster streams", e.ClusterEvent),
    ):
        lines += [f"## {title}", "", "| event | meaning | fields |", "| --- | --- | --- |"]
        for kind in get_args(union):
            fields = ", ".join(f"`{item.name}`" for item in dataclasses.fields(kind))
            lines.append(f"| `{kind.__name__}` | {_first_line(kind)} | {fields} |")
        lines.append("")
    lines += ["## How an incident ends", "", "| end | meaning |", "| --- | --- |"]
    lines += [f"| `{member.value}` | {text} |" for member, text in _members(e.IncidentEnd)]
    return "\n".join(lines) + "\n"


def incident_page() -> str:
    """The states of an incident and its transition table."""
    lines = [
        "# The states of an incident", "",
        "An incident is folded from its events. An empty cell: the event is impossible in that state.", "",
        "| state | meaning |", "| --- | --- |",
    ]  # fmt: skip
    lines += [f"| `{member.value}` | {text} |" for member, text in _members(IncidentState)]
    states = list(IncidentState)
    lines += ["", "| event | " + " | ".join(f"`{state.value}`" for state in states) + " |"]
    lines.append("| --- |" + " --- |" * len(states))
    for kind, moves in TRANSITIONS.items():
        cells = [_cell(moves.get(state), state) for state in states]
        lines.append(f"| `{kind.__name__}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """All settings with type, default and meaning."""
    lines = [
        "# Settings", "",
        "A settings file is YAML: `relance up --config FILE`, or `$RELANCE_CONFIG`. `$RELANCE_STATE_DIR` sets the",
        "state folder; with neither it is `$XDG_STATE_HOME/relance`, else `~/.local/state/relance`. A name that is not",
        "listed here is an error. The limits have a page: [](limits.md).", "",
    ]  # fmt: skip
    for group, title in _GROUPS:
        lines += [f"## {title}", "", "| setting | default | meaning |", "| --- | --- | --- |"]
        lines += [
            f"| `{field.alias or name}` | {_default(field)} | {_meaning(group, name)} |"
            for name, field in group.model_fields.items()
        ]
        lines.append("")
    return "\n".join(lines)


_GROUPS: tuple[tuple[type[BaseModel], str], ...] = (
    (settings_module.Settings, "Top level"),
    (settings_module.ClusterSettings, "`clusters`: one entry per cluster"),
    (source_settings.LogStoreSettings, "`clusters[].logs[]` with `kind: loki` or `kind: victorialogs`"),
    (source_settings.MetricStoreSettings, "`clusters[].metrics[]`"),
    (source_settings.ProgressSeriesSettings, "`clusters[].metrics[].progress`"),
    (OptInSettings, "`clusters[].opt_in` with accounts"),
    (QuietHoursSettings, "`clusters[].quiet_hours[]`"),
    (EvidenceSettings, "`clusters[].evidence`"),
    (settings_module.LocalSchedulerSettings, "`clusters[].scheduler` with `kind: local`"),
    (settings_module.SlurmSchedulerSettings, "`clusters[].scheduler` with `kind: slurm`"),
    (access_settings.SshAccess, "`clusters[].scheduler.access` with `kind: ssh`"),
    (access_settings.ContainerAccess, "`clusters[].scheduler.access` with `kind: container`"),
    (settings_module.ServerSettings, "`server`"),
    (settings_module.MungeSettings, "`server.munge`"),
    (settings_module.AgentSettings, "`agent`"),
    (settings_module.RuleSettings, "`rules`"),
    (settings_module.NotifySettings, "`notify`"),
    (settings_module.MailSettings, "`notify.mail`"),
    (provider_settings.AttributionSettings, "`attribution`"),
    (provider_settings.HttpProviderSettings, "`attribution.providers[]` with `kind: http`"),
    (provider_settings.AttrsvcProviderSettings, "`attribution.providers[]` with `kind: attrsvc`"),
    (provider_settings.PluginProviderSettings, "`attribution.providers[]` of another package"),
)


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")


def _members(kind: Any) -> list[tuple[Any, str]]:  # noqa: ANN401 - an enum class
    """Each member of an enum with the string that follows it in the source."""
    texts = _attribute_texts(kind)
    return [(member, texts.get(member.name, "")) for member in kind]


def _attribute_texts(kind: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    if not isinstance(body, ast.ClassDef):
        return {}
    found: dict[str, str] = {}
    name = ""
    for node in body.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            found[name] = " ".join(str(node.value.value).split())
            name = ""
    return found


def _cell(target: IncidentState | None, state: IncidentState) -> str:
    if target is None:
        return ""
    return "stays" if target is state else f"→ `{target.value}`"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True) if not field.is_required() else None
    if field.is_required():
        return "needed"
    if isinstance(value, Limits):
        return "[](limits.md)"
    if isinstance(value, BaseModel):
        return "below"
    if value in ("", (), {}, None):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`kind: {item.kind}`" if hasattr(item, "kind") else f"`{item}`" for item in value)
    return f"`{value}`"


def _meaning(group: type[BaseModel], name: str) -> str:
    kinds = [kind for kind in group.__mro__ if issubclass(kind, BaseModel) and kind is not BaseModel]
    text = next((found for kind in kinds if (found := _attribute_texts(kind).get(name))), None)
    annotation = group.model_fields[name].annotation
    if text is None and inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return _first_line(annotation)
    return text or ""


def rules_page() -> str:
    """All packaged rules."""
    return render(load_pack(read_texts()))


PAGES = {"events.md": events_page, "incident.md": incident_page, "settings.md": settings_page, "rules.md": rules_page}


def main(arguments: list[str]) -> int:
    """Write or check the pages; gives the exit code."""
    stale = [name for name, page in PAGES.items() if not _same(REFERENCE / name, page())]
    if "--check" in arguments:
        for name in stale:
            print(f"docs/reference/{name} is out of date: run python scripts/reference_pages.py")
        return 1 if stale else 0
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (REFERENCE / name).write_text(PAGES[name](), encoding="utf-8")
    return 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
