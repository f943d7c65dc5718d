"""What the assignments of an UPDATE do on the second run."""

from __future__ import annotations

from sqlglot import exp

from twice.lint.statements.tree import name_of


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
