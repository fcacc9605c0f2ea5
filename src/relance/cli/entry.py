"""Where `relance` begins: what must be quick is told apart before anything else is loaded."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the verb on the command line."""
    if sys.argv[1:2] == ["banner"] and not {"-h", "--help"} & set(sys.argv):
        from relance.cli.prolog import main as banner

        sys.exit(banner(sys.argv[2:]))
    import errno
    import os

    from relance.cli.main import main as verbs

    if sys.stdout is None:  # It was closed: there is nobody to tell, and the exit code still counts.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - it stays open until the end
    try:
        verbs()
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - what is left would fail again
        sys.exit("relance: the answer could not be written: there is no space left where standard output goes")
