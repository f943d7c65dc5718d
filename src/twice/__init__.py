"""Idempotent Spark pipelines: run them twice, get the result once."""
