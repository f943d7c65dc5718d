"""Reads SQL text, from a file or out of a string, into facts: mask the holes, split, parse, read each statement."""
