"""What the SQL in a file's strings does, with what Python adds: bound values, transactions, guards."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from twice.lint.collect.guards.existence_checks import checks_existence
from twice.lint.collect.guards.skip_existing import skips_existing
from twice.lint.collect.guards.transactions import TransactionBlocks
from twice.lint.collect.module_context import ModuleContext, is_operator
from twice.lint.collect.sql.strings import SqlString, name_given, sql_strings
from twice.lint.facts import ClockFact, Guard, IdFact, ReadFact, RunFact, TextSpan, WriteFact
from twice.lint.gather import Gathering
from twice.lint.resolve.flow import Flow
from twice.lint.resolve.module import MODULE, LintedModule, keyword, method
from twice.lint.statements.position import SqlPosition
from twice.lint.statements.read import ReadText, read_text
from twice.lint.statements.values import HoleUse
from twice.lint.vocabulary import same_table, table_name

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def collect_sql(context: ModuleContext, transactions: TransactionBlocks, clocks: Flow, ids: Flow) -> None:
    for found in sql_strings(context):
        _read(context, transactions, clocks, ids, found)
    for call in context.module.calls:
        if method(call) in ("execute", "executemany", "execute_values", "execute_batch", "run", "sql", "query"):
            _imported(context, transactions, call)


def _imported(context: ModuleContext, transactions: TransactionBlocks, call: ast.Call) -> None:
    """``cur.execute(song_insert, row)`` with the statement in another module."""
    for value in call.args[:2]:
        name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
        root = value.value.id if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) else name
        known = root in context.module.aliases or bool(context.module.stars)
        if name and known and context.module.value(value) is None and root != "self":
            place = context.place(call, transaction=transactions.of(call))
            context.gathering.add(RunFact(place, name))


def _read(context: ModuleContext, transactions: TransactionBlocks, clocks: Flow, ids: Flow, found: SqlString) -> None:
    own = Gathering()
    transaction = transactions.of(found.call)
    within = context.within(found.call or found.node)
    position = SqlPosition(
        lambda start, end: found.text.locate(context.module, start, end),
        unit=found.unit,
        order=found.line,
        transaction=transaction,
        within=within,
        engine=_engine(context, found.call),
        runs=_elsewhere(context, found),
    )
    outcome = read_text(
        found.text.value, position, own, dialect=context.settings.dialect or _dialect(context, found.call)
    )
    _newest(context, found, own)
    for fact in own.everything():
        if isinstance(fact, WriteFact):
            fact = _computed(context, found, outcome, _guarded(context, found, fact))
            if context.constant_scope(found.node):
                fact = replace(fact, constant=name_given(context, found.node))
        context.gathering.add(fact)
    _holes(context, clocks, ids, found, outcome)


_MAX = re.compile(r"^\s*select\s+max\s*\(\s*[\w.]+\s*\)(?:\s+(?:as\s+)?\w+)?\s+from\s+([\w.`\"]+)\s*;?\s*$", re.I)


def _newest(context: ModuleContext, found: SqlString, own: Gathering) -> None:
    """``SELECT max(ds) FROM source`` decides what is read next; of the table being loaded it is a watermark."""
    match = _MAX.match(found.text.value)
    if match is None or found.call is None:
        return
    table = table_name(match[1])
    if any(same_table(write.target, table) for write in context.gathering.all(WriteFact)) or table in _written_later(
        context
    ):
        return
    own.add(ReadFact(context.place(found.node), "sql", table, latest=True))


def _written_later(context: ModuleContext) -> set[str]:
    texts = re.findall(
        r"(?i)(?:insert\s+into|merge\s+into|saveAsTable\(|to_sql\(|insertInto\()\s*[\"'`]?([\w.]+)", context.module.text
    )
    return {table_name(text) for text in texts}


def _elsewhere(context: ModuleContext, found: SqlString) -> TextSpan | None:
    if found.call is None or not context.constant_scope(found.node) or found.unit == context.unit(found.node):
        return None
    return context.module.span(found.call)


def _engine(context: ModuleContext, call: ast.Call | None) -> str:
    name = method(call) if call is not None else ""
    if name == "sql" or (name == "query" and context.imports_any("google.cloud")):
        return "spark" if name == "sql" else "bigquery"
    if is_operator(name):
        for word in ("BigQuery", "Snowflake", "Hive", "Redshift", "Postgres", "MySql", "Databricks", "Athena", "Spark"):
            if word in name:
                return word.lower()
    if (
        not context.database
        and call is not None
        and context.imports_any("cassandra")
        and "session" in context.module.source(call.func)
    ):
        return "cassandra"
    return context.database or "sql"


def _dialect(context: ModuleContext, call: ast.Call | None) -> str:
    engine = _engine(context, call)
    return {
        "sql": "",
        "cassandra": "",
        "hbase": "",
        "mysql": "mysql",
        "databricks": "databricks",
        "athena": "trino",
    }.get(engine, engine)


def _guarded(context: ModuleContext, found: SqlString, write: WriteFact) -> WriteFact:
    guards: set[Guard] = set(write.guards)
    if write.engine in ("cassandra", "hbase"):
        guards.add("upsert_store")
    if context.in_memory:
        guards.add("temporary")
    if checks_existence(context, found.call or found.node):
        guards.add("looked_first")
    if write.verb == "insert" and found.call is not None and skips_existing(context, rows_of(found.call)):
        guards.add("anti_join")
    return replace(write, guards=frozenset(guards))


def rows_of(call: ast.Call) -> ast.expr | None:
    """The rows of ``executemany(sql, rows)`` and ``execute_values(cur, sql, rows)``."""
    place = {"executemany": 1, "execute_values": 2, "execute_batch": 2}.get(method(call))
    return call.args[place] if place is not None and len(call.args) > place else None


def _computed(context: ModuleContext, found: SqlString, outcome: ReadText, write: WriteFact) -> WriteFact:
    """An UPDATE with a new value that was computed in Python from what a SELECT of this function fetched."""
    if write.merge is not None and write.merge.source_unique is None and _made_unique(context, found):
        return replace(write, merge=replace(write.merge, source_unique=True))
    if write.verb != "update" or write.increments:
        return write
    fetched = Flow(context.module, _is_fetch)
    for use in outcome.holes:
        value = found.text.holes.get(use.name) or _bound(context.module, found.call, use, outcome.holes)
        if use.use not in ("key_column", "audit_column") or value is None:
            continue
        computed = context.module.value(value) if isinstance(value, ast.Name) else value
        if (
            isinstance(computed, ast.BinOp)
            and isinstance(computed.op, (ast.Add, ast.Sub, ast.Mult))
            and fetched.source(computed)
        ):
            return replace(write, increments=(use.column or "value",))
    return write


def _is_fetch(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and method(node) in ("fetchone", "fetchval", "scalar", "get_first", "fetchall")


def _made_unique(context: ModuleContext, found: SqlString) -> bool:
    """The function removes duplicates from what it stages before it merges."""
    return any(
        method(call) in ("drop_duplicates", "dropDuplicates", "groupby", "groupBy") and call.lineno < found.line
        for call in context.module.calls
        if context.module.unit(call) == context.module.unit(found.call or found.node)
    )


def _holes(context: ModuleContext, clocks: Flow, ids: Flow, found: SqlString, outcome: ReadText) -> None:
    """Values that code puts into the statement: a clock or a random id among them is a fact of its own."""
    for use in outcome.holes:
        value = found.text.holes.get(use.name)
        if value is None:
            value = _bound(context.module, found.call, use, outcome.holes)
        if value is None:
            continue
        clock = clocks.source(value)
        if clock is not None and not clock.optional:
            kind = use.use if use.use != "audit_column" or use.column else "key_column"
            reaches: TextSpan = found.text.locate(context.module, use.offset, use.offset + 6)
            place = replace(context.place(clock.node), within=context.within(found.call or found.node))
            fact = ClockFact(
                place, context.module.source(clock.node, 40), kind, use.column, _at_import(context, clock.node), reaches
            )
            context.gathering.add(fact)
        random = ids.source(value)
        if random is not None and use.use in ("key_column", "audit_column"):
            context.gathering.add(
                IdFact(context.place(random.node), context.module.source(random.node, 40), "random", use.column)
            )


def _bound(module: LintedModule, call: ast.Call | None, use: HoleUse, holes: list[HoleUse]) -> ast.expr | None:
    """The argument bound to a driver's placeholder."""
    if call is None or not is_bindable(call):
        return None
    values = call.args[1] if len(call.args) > 1 else keyword(call, "parameters", "params", "vars", "args")
    if isinstance(values, ast.Name):
        values = module.value(values)
    if isinstance(values, ast.Dict):
        for key, value in zip(values.keys, values.values, strict=False):
            if isinstance(key, ast.Constant) and key.value == use.name:
                return value
        return None
    if isinstance(values, (ast.Tuple, ast.List)):
        if len(use.name) == 1 and use.name in _DIGITS:
            index = _DIGITS.index(use.name)
        elif use.name == "":
            index = sorted(hole.offset for hole in holes if hole.name == "").index(use.offset)
        else:
            return None
        return values.elts[index] if index < len(values.elts) else None
    return None


def is_bindable(call: ast.Call) -> bool:
    return method(call) in ("execute", "executemany", "run", "query", "command", "exec_driver_sql", "fetch")


def _at_import(context: ModuleContext, node: ast.AST) -> bool:
    return context.module.unit(node) == MODULE
