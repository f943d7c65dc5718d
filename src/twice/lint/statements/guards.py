"""What inside one statement makes it safe to run again, or not: conditions of an INSERT or MERGE, assignments of an
UPDATE.
"""

from __future__ import annotations

import re

from sqlglot import exp

from twice.lint.statements.tree import name_of, tables_in
from twice.lint.vocabulary import same_table


def is_anti_join(source: exp.Expr | None, target: str) -> bool:
    """The inserted rows are those the target does not have yet."""
    if source is None:
        return False
    for negated in source.find_all(exp.Not):
        inner = negated.this.unnest()
        if isinstance(inner, (exp.Exists, exp.In)) and _mentions(inner, target):
            return True
    for join in source.find_all(exp.Join):
        outer = str(join.side).upper() in ("LEFT", "RIGHT", "FULL") or str(join.kind).upper() == "ANTI"
        if not outer or not _mentions(join.this, target):
            continue
        if str(join.kind).upper() == "ANTI" or any(
            isinstance(test.expression, exp.Null) for test in source.find_all(exp.Is)
        ):
            return True
    return any(_mentions(other.expression, target) for other in source.find_all(exp.Except))


def is_after_mark(source: exp.Expr | None, target: str) -> exp.Expr | None:
    """The comparison ``column > (SELECT max(column) FROM target)``, if the inserted rows are filtered by one."""
    if source is None:
        return None
    for test in source.find_all(exp.GT, exp.GTE):
        subquery = test.expression.find(exp.Select)
        if subquery is not None and subquery.find(exp.Max) and _mentions(subquery, target):
            return test
    return None


def looks_back(mark: exp.Expr) -> bool:
    """The mark is moved back before it is compared, so rows are read again on purpose."""
    moved = (
        exp.Sub,
        exp.DateAdd,
        exp.DateSub,
        exp.TimestampSub,
        exp.DatetimeSub,
        exp.TimeSub,
        exp.TsOrDsAdd,
        exp.Interval,
    )
    named = (part for part in mark.expression.find_all(exp.Anonymous) if isinstance(part.this, str))
    return mark.expression.find(*moved) is not None or any(
        re.match(r"(date|time|timestamp|datetime)_?(add|sub)$", part.this, re.I) for part in named
    )


def is_unique_source(source: exp.Expr | None, known: dict[str, bool]) -> bool | None:
    """Whether each key occurs once in the rows of a merge; None when the rows come from a table not seen here."""
    if source is None:
        return None
    if isinstance(source, exp.Table):
        return known.get(name_of(source))
    if isinstance(source, (exp.Values, exp.Tuple)):
        return True
    select = source.find(exp.Select)
    if select is None:
        return None
    if select.args.get("group") or select.args.get("distinct"):
        return True
    if select.args.get("from_") is None:
        return True
    if any(window.this.key in ("rownumber", "rank", "denserank") for window in source.find_all(exp.Window)):
        return True
    if source.find(exp.Group) is not None:
        return True
    inner = select.args["from_"].this
    if isinstance(inner, exp.Table):
        return known.get(name_of(inner))
    return None


def _mentions(node: exp.Expr, target: str) -> bool:
    names = tables_in(node)
    if "{" in target or not target:
        return bool(names)
    return any(same_table(name, target) or "{" in name for name in names)


def increments(assignments: list[exp.Expr]) -> list[tuple[str, exp.Expr]]:
    """Columns with a new value that is computed from the old one, with the assignment: run twice, applied twice."""
    found: dict[str, exp.Expr] = {}
    for assignment in assignments:
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.this, exp.Column):
            continue
        column = assignment.this.name.lower()
        for operation in assignment.expression.find_all(
            exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe, exp.Concat, exp.ConcatWs, exp.ArrayConcat
        ):
            own = [
                part
                for part in operation.find_all(exp.Column)
                if part.name.lower() == column
                and part.table.lower() not in ("excluded", "s", "src", "source", "stg")
                and not isinstance(part.parent, exp.Values)
            ]
            if own:
                found.setdefault(column, assignment)
                break
    return list(found.items())


def reading_target(assignments: list[exp.Expr], alias: str, update: exp.Update | None = None) -> list[exp.Expr]:
    """Assignments with a right side that may read the target's own old value: other tables' columns do not count."""
    owned: list[exp.Expr] = []
    for assignment in assignments:
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.this, exp.Column):
            continue
        name = assignment.this.name.lower()
        sources = {c.table.lower() for c in assignment.expression.find_all(exp.Column) if c.name.lower() == name}
        plain = update is None or update.args.get("from_") is None
        if sources & {alias, *_aliases(update), "t", "target", "tgt"} or ("" in sources and plain):
            owned.append(assignment)
    return owned


def _aliases(update: exp.Update | None) -> set[str]:
    """Other names of the target: ``UPDATE stock SET … FROM stock AS s JOIN …``."""
    if update is None:
        return set()
    target = name_of(update.this)
    return {table.alias.lower() for table in update.find_all(exp.Table) if table.alias and name_of(table) == target}


def leaves_own_filter(where: exp.Expr, sets: list[exp.Expr]) -> bool:
    """The update also changes a column that its own WHERE filters by: the second run finds no rows."""
    filtered = {column.name.lower() for column in where.find_all(exp.Column)}
    return any(
        isinstance(item, exp.EQ)
        and isinstance(item.this, exp.Column)
        and item.this.name.lower() in filtered
        and isinstance(item.expression, (exp.Boolean, exp.Literal, exp.Null))
        for item in sets
    )
