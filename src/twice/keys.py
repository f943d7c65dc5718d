"""Keys for plain Python values, and as Spark SQL. For Spark columns: `from twice import surrogate_key`."""

from twice.core.keys import RECIPE, WallTime, key_bytes, stable_row_hash, surrogate_key
from twice.engine.frames.keys import stable_row_hash_sql, surrogate_key_sql

__all__ = [
    "RECIPE",
    "WallTime",
    "key_bytes",
    "stable_row_hash",
    "stable_row_hash_sql",
    "surrogate_key",
    "surrogate_key_sql",
]
