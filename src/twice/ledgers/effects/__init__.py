"""The outbox in the ledger."""
