"""`python -m relance.watchdog` is `relance-watchdog`."""

from __future__ import annotations

from relance.watchdog.main import main

if __name__ == "__main__":
    main()
