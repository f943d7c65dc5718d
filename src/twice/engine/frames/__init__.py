"""Spark frames as the runtime needs them: cut, counted, compared, keyed."""
