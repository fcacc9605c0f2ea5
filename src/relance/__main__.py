"""`python -m relance` is `relance`."""

from __future__ import annotations

from relance.cli.entry import main

if __name__ == "__main__":
    main()
