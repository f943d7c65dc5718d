"""The process a proof runs in: what it is kept from, and what it tried all the same."""
