"""Lines of logs in a terminal."""

from __future__ import annotations

from relance.cli.screens import Screen
from relance.recovery.stories import Quote


def show_quote(screen: Screen, quote: Quote) -> None:
    """A line with the place where it stands."""
    for text in quote.text.splitlines() or [""]:
        screen.line(f"  | {text}", "warn")
    screen.line(f"  | {quote.place}", "quiet")
