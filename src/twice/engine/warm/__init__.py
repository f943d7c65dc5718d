"""Warm Spark: one process keeps a JVM with its session ready, and commands attach to it instead of starting their own.
Python, and so the user's code, is new in each command."""
