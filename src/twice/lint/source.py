"""The text of a file: how it is read, what kind of file it is, and the suppression comments in it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from twice.lint.facts import TextSpan
from twice.lint.file_facts import Role, Suppression

LARGEST = 1_500_000
"""Bytes. A larger file is generated or data; it gets a notice instead of a reading."""

_IGNORE = re.compile(
    r"(?P<mark>\#|--|/\*)\s*twice:\s*ignore(?P<file>-file)?(?:\[(?P<codes>[^\]]*)\])?\s*:?\s*(?P<reason>[^\n]*)"
)
_TEST_NAME = re.compile(
    r"(^|/)(tests?|testing|__tests__|spec|fixtures?|mocks?)/|(^|/)(test_[^/]*|[^/]*_tests?|conftest)\.\w+$"
)
_TEST_IMPORT = re.compile(r"^(import|from) (pytest|unittest|nose|chispa|locust)\b", re.MULTILINE)
_SETUP_NAME = re.compile(
    r"(^|/)(migrations|alembic|versions|flyway|liquibase|seeds?|initdb|docker-entrypoint-initdb\.d)/"
    r"|(^|/)(V\d+[._]*\d*__[^/]*|[^/]*(create_tables?|create_schema|init_db|initdb|setup_db)[^/]*)\.\w+$",
    re.IGNORECASE,
)
_TOOLING_NAME = re.compile(
    r"(^|/)(setup|manage|noxfile|fabfile)\.py$"
    r"|(^|/)(generate_(data|fake|mock|sample|test)[^/]*|[^/]*(data|fake|mock)_?gen(erator)?)\.py$"
    r"|(^|/)([^/]*faker[^/]*|[^/]*simulator)\.py$"
    r"|(^|/)(docs|\.github|vendor|node_modules|site-packages)/",
    re.IGNORECASE,
)
_TOOLING_IMPORT = re.compile(
    r"^\s*(from|import) "
    r"(faker|mimesis|factory|flask|fastapi|django|starlette|streamlit|telegram|discord|tkinter|PyQt\d)\b",
    re.MULTILINE,
)
"""Generators of data, and applications: a row per request is what they are for."""


def role_of(path: str, text: str = "") -> Role:
    """What kind of file this is, by its path below the folder that was given, and by what it imports."""
    name = PurePosixPath(path).as_posix()
    if _TEST_NAME.search(name) or _TEST_IMPORT.search(text):
        return "test"
    if _SETUP_NAME.search(name):
        return "setup"
    if _TOOLING_NAME.search(name) or (_TOOLING_IMPORT.search(text) and "BaseCommand" not in text):
        return "tooling"
    return "pipeline"


def suppressions(text: str) -> tuple[Suppression, ...]:
    """Every suppression comment. Strings that look like one are taken too: the reader meant it."""
    if "twice:" not in text:
        return ()
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines, start=1):
        match = _IGNORE.search(line)
        if match is None:
            continue
        codes = tuple(code.strip().upper() for code in (match["codes"] or "").split(",") if code.strip())
        column = match.start() + 1
        covers = (0, 0) if match["file"] else _covered(lines, number, alone=not line[: match.start()].strip())
        reason = match["reason"].replace("*/", "").strip()
        found.append(Suppression(TextSpan(number, column, number, len(line) + 1), codes, reason, covers))
    return tuple(found)


def _covered(lines: list[str], number: int, *, alone: bool) -> tuple[int, int]:
    if not alone:
        return (number, number)
    for following in range(number, len(lines)):
        stripped = lines[following].strip()
        if stripped and not stripped.startswith(("#", "--")):
            return (number, following + 1)
    return (number, number)


def decoded(data: bytes) -> str:
    """Text of a source file, whatever its encoding: a lost accent is better than a lost file."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return data.decode("latin-1")
