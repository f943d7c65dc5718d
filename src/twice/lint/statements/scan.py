"""Reads a statement that no parser reads, by its words alone: less is seen, but the write itself is."""

from __future__ import annotations

import re

from twice.lint.facts import Guard, MarkFact, MergeShape, Place, TxnFact, Verb, WriteFact
from twice.lint.gather import Fact
from twice.lint.statements.mask import shown
from twice.lint.vocabulary import is_log, is_mark, is_temporary, names_the_run, table_name

_NAME = r"((?:[\w$#@ʔ\"`\[\]-]+|\"[^\"]+\")(?:\s*\.\s*[\w$#@ʔ\"`\[\]-]+)*)"
_HEADS: tuple[tuple[Verb, re.Pattern[str]], ...] = (
    ("overwrite", re.compile(r"insert\s+overwrite\s+(?:table\s+|into\s+)?" + _NAME, re.I)),
    ("merge", re.compile(r"replace\s+into\s+" + _NAME, re.I)),
    ("merge", re.compile(r"merge\s+(?:into\s+)?" + _NAME + r"(?=.*\busing\b)", re.I | re.S)),
    ("insert", re.compile(r"insert\s+(?:or\s+\w+\s+|ignore\s+|low_priority\s+)?into\s+(?:table\s+)?" + _NAME, re.I)),
    ("delete", re.compile(r"delete\s+from\s+" + _NAME, re.I)),
    ("truncate", re.compile(r"truncate\s+(?:table\s+)?" + _NAME, re.I)),
    ("drop", re.compile(r"drop\s+table\s+(?:if\s+exists\s+)?" + _NAME, re.I)),
    ("create", re.compile(r"create\s+(?:or\s+replace\s+)?(?:\w+\s+)?table\s+(?:if\s+not\s+exists\s+)?" + _NAME, re.I)),
    ("update", re.compile(r"update\s+" + _NAME + r"\s+(?:\w+\s+)?set\b", re.I)),
    ("copy", re.compile(r"copy\s+(?:into\s+)?" + _NAME + r"\s*(?:\([^)]*\))?\s+from\b", re.I)),
    ("copy", re.compile(r"load\s+data\s.*?into\s+table\s+" + _NAME, re.I | re.S)),
)
_CONFLICT = re.compile(
    r"\bon\s+conflict\b|\bon\s+duplicate\s+key\b|insert\s+(or\s+(ignore|replace)|ignore)\b|\(\s*merge\s", re.I
)
_ANTI = re.compile(
    r"\bnot\s+exists\s*\(|\bnot\s+in\s*\(\s*select\b|\bleft\s+(anti|join)\b.*\bis\s+null\b|\bexcept\b", re.I | re.S
)
_STEP = re.compile(r"\bset\b.*?\b(\w+)\s*=\s*(?:\w+\.)?\1\s*[-+*|]", re.I | re.S)
_BEGIN = re.compile(r"(begin|start)(\s+(work|tran|transaction))?\b\s*$", re.I)
_END = re.compile(r"(commit|end|rollback)(\s+(work|tran|transaction))?\b\s*$", re.I)
_LONGEST = 20_000


def scan(text: str, place: Place, engine: str) -> list[Fact]:
    text = text[:_LONGEST]
    if _BEGIN.match(text):
        return [TxnFact(place, "begin")]
    if _END.match(text):
        return [TxnFact(place, "rollback" if text[:1] in "rR" else "commit")]
    body = re.sub(r"(?is)^with\b.*?\)\s*(?=insert\b|merge\b|delete\b|update\b)", "", text)
    for verb, head in _HEADS:
        match = head.match(body)
        if match is None:
            continue
        target = table_name(shown(re.sub(r"\s*\.\s*", ".", match[1])))
        return _facts(verb, target, body, place, engine)
    return []


def _facts(verb: Verb, target: str, body: str, place: Place, engine: str) -> list[Fact]:
    guards: set[Guard] = set()
    if _CONFLICT.search(body):
        guards.add("conflict_clause")
    if _ANTI.search(body):
        guards.add("anti_join")
    if is_temporary(target) or (verb == "create" and re.search(r"\btemp(orary)?\b", body[:60], re.I)):
        guards.add("temporary")
    if names_the_run(target):
        guards.add("run_path")
    if is_log(target):
        guards.add("log")
    if verb == "create" and not re.search(r"if\s+not\s+exists", body[:120], re.I):
        guards.add("fresh")
    if verb == "overwrite" and re.search(r"\bpartition\s*\(\s*\w+\s*=", body[:400], re.I):
        guards.add("replace_where")
    forced = bool(re.search(r"force['\"]?\s*=\s*['\"]?true", body, re.I))
    if verb == "copy" and body[:10].lower().startswith("copy into") and not forced:
        guards.add("once_option")
    step = _STEP.search(body) if verb in ("update", "merge") or guards & {"conflict_clause"} else None
    merge = None
    if verb == "merge":
        updates = bool(re.search(r"when\s+matched|replace\s+into", body, re.I))
        unique = True if re.search(r"row_number|group\s+by|distinct|values\s*\(", body, re.I) else None
        merge = MergeShape("the source", unique, updates, versioned=bool(re.search(r"matched\s+and", body, re.I)))
    write = WriteFact(
        place, verb, engine, target, body.split(None, 1)[0].upper(), frozenset(guards),
        increments=(step[1].lower(),) if step else (), merge=merge, forced=forced,
        nothing_on_conflict=bool(re.search(r"do\s+nothing|insert\s+(or\s+)?ignore", body, re.I)),
        conditions=("?",) if verb in ("delete", "update") and re.search(r"\bwhere\b", body, re.I) else (),
    )  # fmt: skip
    marks: list[Fact] = (
        [MarkFact(place, target, "mark")] if is_mark(target) and verb in ("insert", "update", "merge") else []
    )
    return [write, *marks]
