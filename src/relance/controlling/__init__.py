"""The controller's loop: reports, claims, and transactions with a ledger."""
