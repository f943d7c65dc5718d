"""Declared inputs that are no tables: files and values, found where the project allows it."""
