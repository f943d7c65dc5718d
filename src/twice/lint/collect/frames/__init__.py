"""Data frames: where they come from, how they are written, what depends on the order of their rows."""
