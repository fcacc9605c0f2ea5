"""The rule format: reading, checking and compiling rules, and scanning text with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relance.rules.engines import Engine, EngineMaker, Re2Engine
from relance.rules.formats import Pack, PackError, Problem, Rule
from relance.rules.hyperscans import best_engine
from relance.rules.masking import mask, mask_bytes
from relance.rules.scanning import Scanner, ScanResult, ScanState

if TYPE_CHECKING:
    from relance.rules.checking import check_pack
    from relance.rules.loading import load_pack

__all__ = [
    "Engine",
    "EngineMaker",
    "Pack",
    "PackError",
    "Problem",
    "Re2Engine",
    "Rule",
    "ScanResult",
    "ScanState",
    "Scanner",
    "best_engine",
    "check_pack",
    "load_pack",
    "mask",
    "mask_bytes",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what the modules have
    """Load what reads rule files only when it is asked for: who has a pack already does without YAML and pydantic."""
    if name == "check_pack":
        from relance.rules.checking import check_pack  # noqa: PLC0415

        return check_pack
    if name == "load_pack":
        from relance.rules.loading import load_pack  # noqa: PLC0415

        return load_pack
    raise AttributeError(name)
