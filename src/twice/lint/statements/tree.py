"""What a syntax tree shows: names, tables, offsets, the keys that CREATE TABLE declares."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from twice.lint.statements.mask import HOLE, holes_in, shown
from twice.lint.vocabulary import table_name

CLOCKS = {
    "now", "sysdate", "getdate", "getutcdate", "sysdatetime", "sysutcdatetime", "systimestamp", "curdate", "curtime",
    "current_date", "current_timestamp", "current_time", "localtimestamp", "localtime", "unix_timestamp",
    "utc_timestamp",
    "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "today", "current_datetime",
    "utc_date", "sysdatetimeoffset",
}  # fmt: skip
RANDOM_IDS = {
    "newid", "newsequentialid", "uuid", "uuid_string", "generate_uuid", "gen_random_uuid", "uuid_generate_v4",
    "uuid_generate_v1", "sys_guid", "randomuuid", "random_uuid", "generateuuidv4",
}  # fmt: skip
RANDOM = {"rand", "random", "randn", "dbms_random", "randstr", "uniform"}
ENGINE_IDS = {"monotonically_increasing_id", "input_file_name", "input_file_block_start"}
_CLOCK_TYPES = (
    exp.CurrentDate,
    exp.CurrentTimestamp,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.Localtime,
    exp.Localtimestamp,
    exp.Systimestamp,
)


def function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return str(node.sql_name()).lower() if isinstance(node, exp.Func) else ""


def is_clock(node: exp.Expr) -> bool:
    if isinstance(node, _CLOCK_TYPES):
        return True
    if isinstance(node, exp.Anonymous):
        # unix_timestamp(column) converts; only the empty call reads the clock.
        return function_name(node) in CLOCKS and not node.expressions
    if isinstance(node, exp.Column) and not node.table:
        return node.name.lower() in {"sysdate", "systimestamp", "current_date", "current_timestamp"}
    return False


def is_random_id(node: exp.Expr) -> bool:
    return isinstance(node, exp.Uuid) or (isinstance(node, exp.Anonymous) and function_name(node) in RANDOM_IDS)


def is_random(node: exp.Expr) -> bool:
    """A random number without a seed."""
    if isinstance(node, (exp.Rand, exp.Randn)):
        return node.this is None
    return isinstance(node, exp.Anonymous) and function_name(node) in RANDOM and not node.expressions


def is_engine_id(node: exp.Expr) -> bool:
    if isinstance(node, exp.Column):
        return node.name.lower() in {"ctid", "rowid"} and not isinstance(node.parent, exp.Schema)
    return isinstance(node, exp.Func) and function_name(node) in ENGINE_IDS


def name_of(table: exp.Expr | None) -> str:
    """A table's name with its schema, holes shown as {name}; "" for anything that is not a table."""
    if isinstance(table, exp.Schema):
        table = table.this
    if not isinstance(table, exp.Table):
        return ""
    parts = [f"#{part.name}" if part.args.get("temporary") else part.name for part in table.parts if part.name]
    return table_name(shown(".".join(parts)))


def tables_in(tree: exp.Expr | None) -> tuple[str, ...]:
    if tree is None:
        return ()
    local = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    names = [name_of(table) for table in tree.find_all(exp.Table)]
    return tuple(dict.fromkeys(name for name in names if name and name not in local))


def offset_of(node: exp.Expr) -> int | None:
    """Where the node (or the first part of it that knows) begins in its statement."""
    start = node.meta.get("start")
    if isinstance(start, int):
        return start
    starts = [part.meta["start"] for part in node.walk() if isinstance(part.meta.get("start"), int)]
    return min(starts) if starts else None


def expression_holes(node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """Every hole below the node, in identifiers and inside string literals."""
    for part in node.walk():
        if isinstance(part, (exp.Identifier, exp.Literal, exp.Var)):
            text = str(part.this)
            if HOLE in text:
                for name in holes_in(text):
                    yield name, part


def in_filter(node: exp.Expr) -> bool:
    """The node decides which rows: WHERE, ON, HAVING, QUALIFY."""
    child: exp.Expr = node
    parent = node.parent
    while parent is not None:
        if isinstance(parent, (exp.Where, exp.Having, exp.Qualify)):
            return True
        if isinstance(parent, exp.Join) and parent.args.get("on") is child:
            return True
        if isinstance(parent, (exp.Select, exp.Subquery, exp.CTE)) and isinstance(child, (exp.Where, exp.Having)):
            return True
        if isinstance(parent, exp.Select):
            return False
        child, parent = parent, parent.parent
    return False


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
