"""Proofs of tasks: scenarios played in scratch copies, compared with one clean run."""
