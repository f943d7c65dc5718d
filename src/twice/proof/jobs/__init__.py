"""Proofs of jobs that do not use twice: run in copies of their warehouse, disturbed, compared."""
