"""Writes by Delta's public calls: a hidden copy, then `replaceWhere` or MERGE with a token."""
