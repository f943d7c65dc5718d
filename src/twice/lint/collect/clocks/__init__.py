"""Clocks: what reads one, and what its value decides."""
