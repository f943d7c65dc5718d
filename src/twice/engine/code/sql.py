"""The text of a SQL task: which tables and parameters it names, and how its tables become the run's views.

sqlglot only finds positions. The text that runs is the user's own, with table names exchanged in place: SQL
rewritten from a tree would be another dialect's opinion of it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError

from twice.core.names.spark import quoted
from twice.errors import DeclarationError

PARAMETERS = ("start", "end", "ds")
"""What a SQL task may write with a colon: the slice's bounds as timestamps, and its label."""

_DIALECT = "spark"


@dataclass(frozen=True)
class _Reference:
    """One mention of a table: where it is, and what is there already."""

    name: str
    line: int
    start: int
    end: int
    aliasable: bool
    pinned: bool


def tables_in(text: str) -> tuple[str, ...]:
    """The tables a query reads, each once, in the order they are first written; names of CTEs are not tables."""
    found: dict[str, str] = {}
    for reference in _references(_query(text)):
        found.setdefault(reference.name.lower(), reference.name)
    return tuple(found.values())


def parameters_in(text: str) -> tuple[str, ...]:
    """The named parameters (`:start`) of a query, each once, sorted."""
    return tuple(sorted({name for name, _ in _parameters(_query(text), text)}))


def bind(text: str, views: Mapping[str, str], parameters: Collection[str] = PARAMETERS) -> str:
    """The query with each declared table's name exchanged for its view's. Raises DeclarationError where the
    query is no single SELECT, or does not read exactly the tables of `views`, or names another parameter.

    A view hides the table's own name, so each gets it back as its alias: `orders.amount` still resolves.
    """
    query = _query(text)
    references = _references(query)
    by_name = {name.lower(): view for name, view in views.items()}
    _check_tables(references, views)
    _check_parameters(query, text, parameters)
    edits = [(r.start, r.end, _mention(r, by_name[r.name.lower()])) for r in references]
    edits += _qualifiers(query, by_name)
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def normalised(text: str) -> str:
    """The query without comments, hints and line breaks: two texts with the same words are the same code."""
    try:
        tokens = sqlglot.tokenize(text, read=_DIALECT)
    except TokenError as error:
        raise _unreadable(str(error)) from error
    words = [text[t.start : t.end + 1] for t in tokens if t.token_type not in (TokenType.HINT, TokenType.SEMICOLON)]
    return " ".join(words)


def _query(text: str) -> exp.Query:
    statements = [statement for statement in _parse(text) if statement is not None]
    if len(statements) != 1:
        raise DeclarationError(
            f"the SQL holds {len(statements)} statements" if statements else "the SQL holds no statement",
            fix="A SQL task is one SELECT; make each further statement its own task.",
        )
    (statement,) = statements
    if not isinstance(statement, exp.Query) or statement.find(exp.Into):
        verb = str(statement.this if isinstance(statement, exp.Command) else statement.key).upper()
        raise DeclarationError(
            f"{_line(text, _first_word(text))}: the SQL is a statement that is not a SELECT ({verb})",
            fix="Leave only the SELECT: twice writes its rows to the target.",
        )
    return statement


def _parse(text: str) -> list[exp.Expr | None]:
    try:
        with _silence():
            return list(sqlglot.parse(text, read=_DIALECT, error_level=ErrorLevel.IMMEDIATE))
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        line, near = first.get("line"), first.get("highlight")
        raise _unreadable(f"line {line}: near {near!r}" if line else str(error)) from error
    except TokenError as error:
        raise _unreadable(str(error)) from error


@contextmanager
def _silence() -> Iterator[None]:
    # sqlglot 30 warns on stderr when it does not know a statement; we report that ourselves, with a line.
    logger = logging.getLogger("sqlglot")
    was = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was


def _unreadable(reason: str) -> DeclarationError:
    return DeclarationError(
        f"the SQL cannot be read: {reason}",
        fix="Check the syntax there; what Spark accepts and twice cannot read may go into a @task with run.spark.sql.",
    )


def _references(query: exp.Query) -> tuple[_Reference, ...]:
    found = []
    for table in query.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            _refuse_computed_name(table)
            continue
        if not table.args.get("db") and _is_cte(table):
            continue
        parts = [part.meta for part in table.parts]
        hidden = ("alias", "sample", "pivots")  # Spark wants the alias after these, where there may be one already
        found.append(
            _Reference(
                name=".".join(part.name for part in table.parts),
                line=parts[0]["line"],
                start=parts[0]["start"],
                end=parts[-1]["end"] + 1,
                aliasable=not any(table.args.get(key) for key in hidden),
                pinned=bool(table.args.get("version") or table.args.get("when")),
            )
        )
    return tuple(sorted(found, key=lambda reference: reference.start))


def _refuse_computed_name(table: exp.Table) -> None:
    """`identifier(:name)` names a table only when it runs; range(), explode() and the like read none."""
    if table.this.name.lower() == "identifier":  # Table.name is empty for a function
        raise DeclarationError(
            f"line {table.this.meta.get('line', 1)}: IDENTIFIER() hides which table is read",
            fix="Write the table's name.",
        )


def _is_cte(table: exp.Table) -> bool:
    """A CTE is visible to those after it and to the query it belongs to; to itself only if it is recursive."""
    inside: exp.Expr = table
    name = table.name.lower()
    passed: exp.CTE | None = None
    while inside.parent is not None:
        inside = inside.parent
        if isinstance(inside, exp.CTE):
            passed = inside
            continue
        # The argument is `with_` since sqlglot 28, `with` before.
        with_ = inside.args.get("with_") or inside.args.get("with")
        if not isinstance(with_, exp.With):
            continue
        visible = list(with_.expressions)
        if passed is not None and passed.parent is with_:
            visible = visible[: visible.index(passed) + bool(with_.args.get("recursive"))]
        if any(cte.alias.lower() == name for cte in visible):
            return True
    return False


def _parameters(query: exp.Query, text: str) -> tuple[tuple[str, int], ...]:
    """Name and offset. sqlglot keeps no position for `:name`, so the offset comes from the tokens."""
    names = {str(p.this) for p in query.find_all(exp.Placeholder) if p.this}
    if any(not p.this for p in query.find_all(exp.Placeholder)):
        raise DeclarationError("the SQL has a parameter without a name (?)", fix="Write :start, :end or :ds.")
    tokens = sqlglot.tokenize(text, read=_DIALECT)
    return tuple(
        (after.text, colon.start)
        for colon, after in pairwise(tokens)
        if colon.token_type in (TokenType.COLON, TokenType.PARAMETER) and after.text in names
    )


def _check_parameters(query: exp.Query, text: str, known: Collection[str]) -> None:
    for name, offset in _parameters(query, text):
        if name not in known:
            raise DeclarationError(
                f"{_line(text, offset)}: there is no parameter :{name}",
                fix=f"Use {', '.join(f':{each}' for each in known)}; a constant is written as it is.",
            )


def _check_tables(references: Collection[_Reference], views: Mapping[str, str]) -> None:
    declared = {name.lower() for name in views}
    for reference in references:
        if reference.name.lower() not in declared:
            input_name = reference.name.rpartition(".")[2]
            raise DeclarationError(
                f"line {reference.line}: the table {reference.name} is not declared",
                fix=f'Add it to inputs=: {{"{input_name}": read("{reference.name}")}}.',
            )
        if reference.pinned:
            raise DeclarationError(
                f"line {reference.line}: {reference.name} is read at a version of its own",
                fix="Leave out VERSION or TIMESTAMP AS OF: twice pins every input to one version for the run.",
            )
    used = {reference.name.lower() for reference in references}
    for name in views:
        if name.lower() not in used:
            raise DeclarationError(
                f"the input {name} is declared, but the SQL does not read it", fix="Take it out of inputs=."
            )


def _mention(reference: _Reference, view: str) -> str:
    own = reference.name.rpartition(".")[2]
    name = quoted(view)
    return f"{name} AS `{own}`" if reference.aliasable and own.lower() != view.lower() else name


def _qualifiers(query: exp.Query, views: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """`shop.orders.amount` loses its `shop.`: a view has no schema."""
    edits = []
    for column in query.find_all(exp.Column):
        *prefix, _ = column.parts
        if len(prefix) > 1 and ".".join(part.name for part in prefix).lower() in views:
            first, last = prefix[0].meta, prefix[-1].meta
            edits.append((first["start"], last["start"], ""))
    return edits


def _first_word(text: str) -> int:
    tokens = sqlglot.tokenize(text, read=_DIALECT)
    return int(tokens[0].start) if tokens else 0


def _line(text: str, offset: int) -> str:
    return f"line {text.count(chr(10), 0, offset) + 1}"
