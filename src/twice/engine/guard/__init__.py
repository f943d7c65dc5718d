"""The plan guard: what in a plan is not the same on every run, and which columns it reaches."""
