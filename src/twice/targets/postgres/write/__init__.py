"""Staging by COPY, and the one transaction that publishes."""
