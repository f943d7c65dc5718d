"""A backfill: the frozen plan of it, and what becomes of it."""
