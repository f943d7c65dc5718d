"""The glossary and the source use the same words, some words not at all, and a class name means one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "twice"
ROWS = re.findall(
    r"^\| (\*\*.+?) \| (.+?) \|(?: (.*?) )?\|$",
    (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
NAMES = sorted({name for _, _, code in ROWS for name in re.findall(r"`([a-z_.A-Z]+)`", code)})

BANNED = frozenset(
    {
        "told",
        "said",
        "spoken",
        "shop",
        "errand",
        "yard",
        "veil",
        "verdict",
        "verdicts",
        "wish",
        "site",
        "trouble",
        "met",
    }
    | {"world", "laboratory", "leavings", "complaint", "complaints", "witness", "house"}
)
"""Parts of identifiers: `_told` and `told_unique` count, `message` is the usual word."""

PHRASES = {
    r"\banew\b": "again, rebuilt, recreated",
    r"\blies? over\b": "overwrites, may have overwritten",
    r"\bcut otherwise\b": "cut differently",
    r"\b(went|fell|goes|was|were) silent\b(?!:)": "stopped reporting; silent is a run without effects",
    r"\bcould not be asked\b": "could not be read",
    r"\b(person|ledger|table|commit)'s (own )?word\b": "unless a person confirms it, as the ledger records",
    r"\bin person\b": "a person decides",
    r"\bhangs? on\b": "depends on",
    r"\bdice\b": "random numbers",
    r"\b[Mm]akes? a slice right\b": "compute and publish, unless it is up to date",
    r"\b[Mm]end\b": "fix",
    r"\bthe line (to|broke|is cut)\b(?! the JVM)": "the connection was lost",
    r"\bgave way\b|\bgives way\b": "was displaced",
    r"\bnobody (remembers|can say|can know|has recorded|can compare)\b": "there is no record, it is not known",
    r"\bis no (\w+ )?(URL|list|address|share|number of|key|length)\b": "is not a valid …",
    r"\bnames no (key|column|channel)\b": "is empty",
    r"\b(is|are|was|were) told\b|\btold apart\b": "see, distinguish",
}
"""Not said to users or to readers of the source, with what is said instead."""

PAGES = (*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "strategies").glob("*.md"), *ROOT.glob("*.md"))

SHARED_CLASS_NAMES = {
    "Table": "one version of a table, as each target knows it",
    "Intent": "a table as a target's commit will leave it",
    "Stage": "what an attempt has staged in a target's table",
}
"""Names of several classes, with the one meaning they share."""


def identifiers(tree: ast.AST) -> Iterator[str]:
    """Every name that the code gives or uses, also inside f-strings; no text and no comment."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg | ast.keyword) and node.arg is not None:
            yield node.arg
        elif isinstance(node, ast.alias):
            yield from (node.asname or node.name).split(".")


def parts(identifier: str) -> set[str]:
    """`_told_unique` and `ToldUnique` are told and unique."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", identifier)}


def banned_in(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {name for name in (*identifiers(tree), path.stem) if parts(name) & BANNED}
    return sorted(found)


def test_every_glossary_word_is_explained_once() -> None:
    words = [word for word, _, _ in ROWS]
    assert len(words) > 60
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_glossary_names_in_the_code_is_there(name: str) -> None:
    path = SOURCE.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return
    module = path.parent.with_suffix(".py")
    assert module.is_file(), f"{name}: there is no such module"
    defined = {
        target
        for node in ast.parse(module.read_text(encoding="utf-8")).body
        for target in (
            [node.name]
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            else [each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)]
        )
    }
    assert path.name in defined, f"{name}: {module.name} does not define it"


def test_words_that_the_glossary_replaced_are_no_identifiers() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): names
        for path in sorted(SOURCE.rglob("*.py"))
        if (names := banned_in(path))
    }
    assert found == {}


def phrases_in(text: str) -> list[str]:
    """Also where a line breaks inside of one, in a docstring, a comment or a message."""
    joined = re.sub(r"(\"\s*f?\"|\s)(\s|# )*", lambda gap: "" if '"' in gap[0] else " ", text)
    return [f"{found[0]!r}: {usual}" for phrase, usual in PHRASES.items() for found in re.finditer(phrase, joined)]


@pytest.mark.parametrize(
    "text",
    [
        "a table that was made anew",
        "it was made\n    # anew",
        '"slices may lie "\n        f"over {rows}"',
        "it fell\nsilent",
    ],
)
def test_a_phrase_is_found_where_a_line_breaks_in_it(text: str) -> None:
    assert len(phrases_in(text)) == 1


def test_mannered_phrases_are_neither_in_messages_nor_on_pages() -> None:
    paths = (*SOURCE.rglob("*.py"), *PAGES)
    assert len(PAGES) > 20
    found = {
        path.relative_to(ROOT).as_posix(): phrases
        for path in sorted(paths)
        if (phrases := phrases_in(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def classes_of(source: Path) -> dict[str, list[str]]:
    """Where each class name is defined, nested classes too."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(source).as_posix())
    return found


def test_a_class_name_is_given_once_or_listed_with_the_meaning_it_shares() -> None:
    several = {name: paths for name, paths in classes_of(SOURCE).items() if len(paths) > 1}
    assert set(several) == set(SHARED_CLASS_NAMES), several
    in_targets = [path for paths in several.values() for path in paths if path.startswith("targets/")]
    assert in_targets == [path for paths in several.values() for path in paths], "the role is that of a target's state"
