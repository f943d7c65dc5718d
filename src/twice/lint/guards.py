"""Marks the writes that something else in the code makes safe to run again.

A front-end sees a write alone. Here the writes of one file are looked at together: what empties the target first,
what recreated it, and whether that commits together with the insert.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import replace

from twice.lint.facts import Guard, WriteFact
from twice.lint.file_facts import FileFacts
from twice.lint.settings import LintSettings
from twice.lint.vocabulary import is_staging, same_table

ADDING = ("append", "insert", "copy")
EMPTYING = ("delete", "truncate")
CONSTANTS = "<constants>"
_RETENTION = re.compile(r"<(?!=?\s*any)|\binterval\b|date_sub|dateadd|days_?ago|older|retention|cutoff", re.I)


def guarded(file: FileFacts, settings: LintSettings) -> FileFacts:
    """The same facts; every adding write carries the guards its neighbours give it."""
    writes = tuple(_with_guards(write, file, settings) for write in file.writes)
    return replace(file, writes=writes)


def _with_guards(write: WriteFact, file: FileFacts, settings: LintSettings) -> WriteFact:
    found: set[Guard] = set(write.guards)
    if any(
        fnmatch.fnmatch(write.target, pattern.lower()) or write.engine == pattern for pattern in settings.upsert_targets
    ):
        found.add("upsert_store")
    if (settings.dynamic_overwrite or "dynamic_overwrite" in file.traits) and write.verb == "overwrite":
        found.add("dynamic_overwrite")
    if write.verb in ADDING:
        for other in file.writes:
            if other is not write and same_table(other.target, write.target):
                found |= _given_by(other, write)
    return replace(write, guards=frozenset(found))


def emptied_by(write: WriteFact, file: FileFacts) -> list[WriteFact]:
    """The deletes and truncates of the same target that come before the write."""
    return [
        other
        for other in file.writes
        if other.verb in EMPTYING
        and same_table(other.target, write.target)
        and "delete_before" in _given_by(other, write)
    ]


def _given_by(other: WriteFact, write: WriteFact) -> set[Guard]:
    same_unit = other.place.unit == write.place.unit
    before = other.place.order <= write.place.order
    if other.verb in EMPTYING:
        if is_retention(other):
            return set()
        whole = other.verb == "truncate" or not other.conditions
        if not (before or not same_unit or (whole and is_staging(write.target))):
            return set()
        given: set[Guard] = {"delete_before"}
        if (
            same_unit
            and other.place.transaction == write.place.transaction
            and write.place.transaction not in ("", "?")
        ):
            given.add("delete_atomic")
        return given
    if other.verb in ("drop", "overwrite") or (other.verb == "create" and "fresh" in other.guards):
        # A module of constants does not show which of them run together, so a DROP there promises nothing.
        if CONSTANTS in (other.place.unit, write.place.unit) or (
            same_unit and not before and not is_staging(write.target)
        ):
            return set()
        if other.verb == "create" and "temporary" in other.guards:
            return {"temporary"}
        return {"fresh"} if same_unit or other.verb == "drop" else set()
    if other.verb == "create" and "temporary" in other.guards:
        return {"temporary"}
    return set()


def is_retention(delete: WriteFact) -> bool:
    """A delete of old rows: it does not make room for the rows that are written now."""
    text = " ".join(delete.conditions)
    return bool(text) and bool(_RETENTION.search(text)) and not re.search(r">=?|between", text)
