"""What the ledger keeps, and the rules of its outbox. How it is asked is in `core.ports`."""
