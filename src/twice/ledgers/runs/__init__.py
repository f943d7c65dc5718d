"""Attempts, runs, claims and inputs: how they are recorded, moved on and read."""
