"""Settings in, a working project out: the only layer that picks implementations."""
