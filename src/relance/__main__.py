"""`python -m relance` is `relance`."""

from __future__ import annotations

from relance.cli.main import main

if __name__ == "__main__":
    main()
