"""Where `relance` begins: what must be quick is told apart before anything else is loaded."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the verb on the command line."""
    if sys.argv[1:2] == ["banner"] and not {"-h", "--help"} & set(sys.argv):
        from relance.cli.prolog import main as banner

        sys.exit(banner(sys.argv[2:]))
    from relance.cli.main import main as verbs

    verbs()
