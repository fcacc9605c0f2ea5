"""A private munged for the tests of this folder."""

from __future__ import annotations

from tests.components.munge import munged

__all__ = ["munged"]
