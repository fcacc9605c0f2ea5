"""The rule format: reading, checking and compiling rules, and scanning text with them."""

from __future__ import annotations

from relance.rules.checking import check_pack
from relance.rules.engines import Engine, Re2Engine
from relance.rules.formats import Pack, PackError, Problem, Rule
from relance.rules.loading import load_pack
from relance.rules.masking import mask, mask_bytes
from relance.rules.scanning import Scanner, ScanResult, ScanState

__all__ = [
    "Engine",
    "Pack",
    "PackError",
    "Problem",
    "Re2Engine",
    "Rule",
    "ScanResult",
    "ScanState",
    "Scanner",
    "check_pack",
    "load_pack",
    "mask",
    "mask_bytes",
]
