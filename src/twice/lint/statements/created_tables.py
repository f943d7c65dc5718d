"""What CREATE TABLE declares: the business key, and a column that counts by itself."""

from __future__ import annotations

import re

from sqlglot import exp

from twice.lint.statements.tree import function_name, offset_of

_SEQUENCES = re.compile(r"\b(small|big)?serial\b", re.IGNORECASE)


def keys_of(tree: exp.Create) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """The business key of a created table, and its sequence column with the words that make it one."""
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        return (), None
    sequence: tuple[str, str] | None = None
    keys: list[tuple[str, ...]] = []
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef):
            words = _sequence_words(part)
            if words:
                sequence = sequence or (part.name, words)
            elif any(
                isinstance(_kind(rule), (exp.PrimaryKeyColumnConstraint, exp.UniqueColumnConstraint))
                for rule in part.constraints
            ):
                keys.append((part.name.lower(),))
        else:
            for rule in (part, *part.find_all(exp.PrimaryKey, exp.UniqueColumnConstraint)):
                if isinstance(rule, (exp.PrimaryKey, exp.UniqueColumnConstraint)):
                    names = tuple(item.name.lower() for item in rule.find_all(exp.Identifier))
                    keys.append(names)
    owner = sequence[0].lower() if sequence else ""
    business = [key for key in keys if key and owner not in key]
    return (business[0] if business else ()), sequence


def column_offset(tree: exp.Create, name: str) -> int | None:
    for column in tree.find_all(exp.ColumnDef):
        if column.name == name:
            return offset_of(column)
    return None


def _sequence_words(column: exp.ColumnDef) -> str:
    kind = column.args.get("kind")
    if kind is not None and _SEQUENCES.search(kind.sql()):
        return str(kind.sql()).upper()
    for kind in map(_kind, column.constraints):
        if isinstance(kind, exp.GeneratedAsIdentityColumnConstraint):
            return "IDENTITY"
        if isinstance(kind, exp.AutoIncrementColumnConstraint):
            return "AUTO_INCREMENT"
        if isinstance(kind, exp.DefaultColumnConstraint) and (
            kind.find(exp.NextValueFor)
            or any(function_name(call) == "nextval" for call in kind.find_all(exp.Anonymous))
        ):
            return "NEXTVAL"
    return ""


def _kind(constraint: exp.Expr) -> exp.Expr | None:
    """A column's constraint; some of the parser's (IN OUT of a procedure) have no kind."""
    kind = constraint.args.get("kind")
    return kind if isinstance(kind, exp.Expr) else None
