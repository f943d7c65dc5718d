"""Rows and files written through clients."""
