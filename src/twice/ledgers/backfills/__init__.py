"""Backfills in the ledger: frozen plans and who works on them."""
