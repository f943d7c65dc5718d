"""Proofs: a task is run twice, crashed everywhere, fired two at once and shuffled, in a scratch copy of its table."""
