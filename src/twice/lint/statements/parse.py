"""One statement to a syntax tree, in the dialect it is most likely written in."""

from __future__ import annotations

import logging
import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

LONGEST = 30_000
"""Characters of one statement that are parsed; a longer one is only scanned, a long VALUES list cut short."""
DEEPEST = 40
"""Nested parentheses; the parser backtracks, and its time grows with every level."""

_GUESSES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "bigquery",
        re.compile(r"`[\w-]+\.[\w.-]+`|\bGENERATE_UUID\b|\bSAFE_CAST\b|_TABLE_SUFFIX|\bSTRUCT<|_PARTITIONTIME", re.I),
    ),
    (
        "spark",
        re.compile(
            r"\bINSERT\s+(OVERWRITE|INTO\s+TABLE)\b|\bLATERAL\s+VIEW\b|\bUSING\s+(DELTA|ICEBERG|PARQUET)\b|\bSTORED\s+AS\b"
            r"|\bcollect_(list|set)\b|\bUPDATE\s+SET\s+\*|\bdelta\.`",
            re.I,
        ),
    ),
    (
        "snowflake",
        re.compile(
            r"\bQUALIFY\b|\bCOPY\s+INTO\b|\bUUID_STRING\b|\bVARIANT\b|\bCREATE\s+OR\s+REPLACE\s+TABLE\b|\$\d:", re.I
        ),
    ),
    (
        "tsql",
        re.compile(
            r"\bNEWID\s*\(|\bSYSDATETIME\b|\bIDENTITY\s*\(|\[dbo\]|\bdbo\.|\[\w+\]\.\[\w+\]|\bDECLARE\s+@|\bSET\s+@|\bNVARCHAR\b|\bSELECT\s+TOP\b|\bISNULL\s*\(",
            re.I,
        ),
    ),
    (
        "redshift",
        re.compile(r"\bDISTKEY\b|\bSORTKEY\b|\bDISTSTYLE\b|\bIAM_ROLE\b|\bGETDATE\s*\(|\bIDENTITY\s*\(\s*\d", re.I),
    ),
    (
        "mysql",
        re.compile(
            r"\bON\s+DUPLICATE\s+KEY\b|\bINSERT\s+IGNORE\b|\bAUTO_INCREMENT\b|\bENGINE\s*=|\bREPLACE\s+INTO\b", re.I
        ),
    ),
    ("sqlite", re.compile(r"\bINSERT\s+OR\s+(REPLACE|IGNORE)\b|\bAUTOINCREMENT\b", re.I)),
    ("oracle", re.compile(r"\bSYSDATE\b(?!\s*\()|\bNVL2?\s*\(|\bFROM\s+DUAL\b|\bVARCHAR2\b|\.NEXTVAL\b", re.I)),
    ("postgres", re.compile(r"\bON\s+CONFLICT\b|::\w+|\bSERIAL\b|\bRETURNING\b|\bDISTINCT\s+ON\b|\bILIKE\b", re.I)),
    ("spark", re.compile(r"`", re.I)),
)
_STARTS = re.compile(
    r"\s*\(*\s*(select|with|insert|merge|update|delete|truncate|create|drop|copy|load|begin|commit|rollback|alter|replace|from)\b",
    re.IGNORECASE,
)
_FALLBACKS = ("postgres", "spark", "snowflake", "bigquery")

# sqlglot reports what it does not know on its own logger; lint reports it in notices of its own.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


def guess(text: str, suffix: str = "") -> str:
    """The dialect a text is most likely written in; "" when nothing points to one."""
    sample = text[:20_000]
    if suffix in (".hql", ".q"):
        return "hive"
    return next((name for name, pattern in _GUESSES if pattern.search(sample)), "")


def parse(text: str, dialect: str) -> exp.Expr | None:
    """The tree of one statement, or None when no dialect reads it."""
    if len(text) > LONGEST:
        text = _shortened(text)
    if not text or not _STARTS.match(text) or _depth(text) > DEEPEST:
        return None
    tried: list[str] = []
    for name in (guess(text) or dialect, dialect, *_FALLBACKS):
        if not name or name in tried:
            continue
        tried.append(name)
        tree = _parsed(text, name)
        if tree is not None:
            return tree
        if len(tried) == 3:
            break
    return None


def _parsed(text: str, dialect: str) -> exp.Expr | None:
    try:
        tree = sqlglot.parse_one(text, read=dialect)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, KeyError, IndexError, AssertionError):
        # The parser raises more than its own errors on input no database would take.
        return None
    return None if isinstance(tree, (exp.Command, exp.Column, exp.Alias)) else tree


def _shortened(text: str) -> str:
    head = re.match(r"(?is)\s*(INSERT\b.*?\bVALUES\s*\([^()]{0,2000}\))", text[:LONGEST])
    return head[1] if head else ""


def _depth(text: str) -> int:
    deepest = depth = 0
    for char in text:
        if char == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif char == ")":
            depth -= 1
    return deepest
