"""SQL inside Python strings: found, put together, and tied to the call that runs it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from twice.lint.collect.scene import Scene, is_operator
from twice.lint.collect.transactions import Transactions
from twice.lint.facts import ClockFact, Guard, IdFact, ReadFact, Span, WriteFact
from twice.lint.gather import Gathering
from twice.lint.resolve.flow import Flow
from twice.lint.resolve.folding import Text, fold
from twice.lint.resolve.module import MODULE, keyword, method
from twice.lint.statements.read import ReadText, read_text
from twice.lint.statements.site import Site
from twice.lint.statements.values import HoleUse
from twice.lint.vocabulary import is_audit_column, same_table, table_name

_HINT = re.compile(r"\b(insert|update|delete|merge|truncate|copy|create|drop|select|replace|conflict)\b", re.I)
_SQL = re.compile(
    r"""^(?:\s|--[^\n]*\n|/\*.*?\*/|;|\()*(?:
      insert\s+(?:or\s+\w+\s+|ignore\s+)?(?:into|overwrite)\s+\S+
    | replace\s+into\s+\S+ | merge\s+(?:into\s+)?\S+.*\busing\b | update\s+\S+\s+(?:\w+\s+)?set\b
    | delete\s+from\s+\S+ | truncate\s+(?:table\s+)?[\w.ʔ"{}`%]+\s*;?\s*(?:$|\n|restart|cascade|insert|;)
    | copy\s+(?:into\s+)?\S+.*\bfrom\b | create\s+(?:or\s+replace\s+)?(?:\w+\s+){0,3}table\b | drop\s+table\b
    | with\s+\w+\s*(?:\([^)]*\))?\s+as\s*\( | select\b.{1,20000}?\bfrom\b | begin\s*(?:transaction|;) | start\s+transaction
    | load\s+data\b | select\s+row_number\b
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_WRAPPERS = {
    "text",
    "dedent",
    "SQL",
    "strip",
    "cleandoc",
    "format",
    "join",
    "str",
    "list",
    "tuple",
    "sql_text",
    "replace",
    "Composed",
}
_TALK = {"print", "info", "debug", "warning", "error", "exception", "critical", "log", "write", "echo", "add_argument", "compile",
         "pprint", "warn", "startswith", "ArgumentParser", "Exception", "ValueError", "match", "search", "sub", "Field", "help"}  # fmt: skip
_CURSOR = ("execute", "executemany", "execute_async", "execute_batch", "execute_values", "mogrify", "copy_expert", "executescript",
           "execute_query", "run_query", "exec_driver_sql", "execute_sql", "execute_string", "run", "sql", "query", "read_sql",
           "read_sql_query", "get_records", "get_first", "get_pandas_df", "read_gbq", "command", "query_and_wait", "fetch", "do")  # fmt: skip
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass
class Found:
    node: ast.expr
    text: Text
    call: ast.Call | None
    unit: str
    line: int


def collect_sql(scene: Scene, transactions: Transactions, clocks: Flow, ids: Flow) -> None:
    for found in _strings(scene):
        _read(scene, transactions, clocks, ids, found)


def _strings(scene: Scene) -> list[Found]:
    module = scene.module
    seen: set[ast.AST] = set()
    found: list[Found] = []
    for node in module.nodes:
        if not isinstance(node, (ast.Constant, ast.JoinedStr)) or not _may_be_sql(node):
            continue
        top = _whole(scene, node)
        if top in seen or _is_docstring(scene, top):
            continue
        seen.add(top)
        text = fold(module, top)
        if text is None:
            continue
        text = _with_additions(scene, top, text)
        if not _SQL.match(text.value):
            continue
        call, use = _execution(scene, top)
        text = _formatted_at(scene, use, text) if use is not top else text
        if call is not None and method(call) in _TALK:
            continue
        unit = scene.unit(use)
        if scene.constant_scope(top) and use is top and call is None:
            unit = "<constants>"
        found.append(Found(top, text, call, unit, use.lineno if isinstance(use, ast.expr) else top.lineno))
    return [item for item in found if not _only_a_part(scene, item, seen)]


def _may_be_sql(node: ast.Constant | ast.JoinedStr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and len(node.value) >= 8 and bool(_HINT.search(node.value[:4000]))
    return any(isinstance(part, ast.Constant) and _HINT.search(str(part.value)[:4000]) for part in node.values)


def _whole(scene: Scene, node: ast.expr) -> ast.expr:
    """The largest expression that only puts text together around `node`."""
    current: ast.expr = node
    for parent in scene.module.ancestors(node):
        text_building = (
            isinstance(parent, (ast.JoinedStr, ast.FormattedValue))
            or (isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Mod)) and not (isinstance(parent.op, ast.Mod) and parent.right is current))
            or (isinstance(parent, ast.Attribute) and parent.attr in _WRAPPERS)
            or (isinstance(parent, ast.Call) and method(parent) in _WRAPPERS and (parent.func is current or current in parent.args)
                and method(parent) not in ("list", "tuple"))
        )  # fmt: skip
        if not text_building or not isinstance(parent, ast.expr):
            break
        current = parent
    return current


def _is_docstring(scene: Scene, node: ast.AST) -> bool:
    return isinstance(scene.module.parent.get(node), ast.Expr)


def _with_additions(scene: Scene, top: ast.expr, text: Text) -> Text:
    """``sql += …`` and ``sql = sql + …`` later in the same function belong to the same statement."""
    parent = scene.module.parent.get(top)
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return text
    name = parent.targets[0].id
    unit = scene.module.unit(top)
    for node in scene.module.nodes:
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == name
            and node.lineno > top.lineno
            and scene.module.unit(node) == unit
        ):
            more = fold(scene.module, node.value)
            if more is not None:
                text.add(more)
    return text


def _execution(scene: Scene, top: ast.expr) -> tuple[ast.Call | None, ast.AST]:
    """The call that gets the text, directly or by the name it was given, and where that happens."""
    call = _receiver(scene, top)
    if call is not None:
        return call, top
    name = _name_given(scene, top)
    if not name:
        return None, top
    constant = scene.constant_scope(top)
    unit = None if constant else scene.module.unit(top)
    uses = [use for use in scene.module.uses(name, unit) if constant or getattr(use, "lineno", 0) >= top.lineno]
    candidates = [(_receiver(scene, use), use) for use in uses]
    for call, use in candidates:
        if call is not None and method(call) in _CURSOR:
            return call, use
    for call, use in candidates:
        if call is not None and method(call) not in _TALK and method(call) != "format":
            return call, use
    for _, use in candidates:
        # Formatted first, then run: ``sql = QUERY.format(table)``; ``hook.run(sql)``.
        whole = _whole(scene, use) if isinstance(use, ast.expr) else use
        again = _name_given(scene, whole) if isinstance(whole, ast.expr) and whole is not use else ""
        for later in scene.module.uses(again, scene.module.unit(use)) if again else ():
            call = _receiver(scene, later)
            if call is not None and method(call) not in _TALK:
                return call, use
    return (None, uses[0]) if uses and constant else (None, top)


def _formatted_at(scene: Scene, use: ast.AST, text: Text) -> Text:
    """``QUERY.format(table)`` where the constant is used: its holes get the names they are filled with."""
    holder = scene.module.parent.get(use)
    call = scene.module.parent.get(holder) if isinstance(holder, ast.Attribute) else holder
    if (
        isinstance(call, ast.Call)
        and method(call) == "format"
        or isinstance(call, ast.BinOp)
        and isinstance(call.op, ast.Mod)
    ):
        return fold(scene.module, call) or text
    return text


def _receiver(scene: Scene, node: ast.AST) -> ast.Call | None:
    child = node
    for parent in scene.module.ancestors(node):
        if isinstance(parent, ast.Call):
            if method(parent) not in _WRAPPERS:
                return parent if parent.func is not child else None
        elif not isinstance(
            parent,
            (
                ast.keyword,
                ast.List,
                ast.Tuple,
                ast.Attribute,
                ast.BinOp,
                ast.Starred,
                ast.IfExp,
                ast.Dict,
                ast.Subscript,
            ),
        ):
            return None
        child = parent
    return None


def _name_given(scene: Scene, top: ast.expr) -> str:
    child: ast.AST = top
    for parent in scene.module.ancestors(top):
        if isinstance(parent, (ast.Tuple, ast.List, ast.Dict, ast.IfExp)):
            child = parent
            continue
        targets = (
            parent.targets
            if isinstance(parent, ast.Assign)
            else [parent.target]
            if isinstance(parent, (ast.AnnAssign, ast.NamedExpr))
            else []
        )
        if targets and child is getattr(parent, "value", None):
            target = targets[0]
            return (
                target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
            )
        if isinstance(parent, ast.Return):
            function = scene.module.owner(parent)
            return function.name if function else ""
        return ""
    return ""


def _only_a_part(scene: Scene, found: Found, tops: set[ast.AST]) -> bool:
    """The text is only ever used to build another text that was found on its own."""
    name = _name_given(scene, found.node)
    if not name or found.call is not None and method(found.call) in _CURSOR:
        return False
    uses = scene.module.uses(name, None if scene.constant_scope(found.node) else scene.module.unit(found.node))
    return bool(uses) and all(any(parent in tops for parent in scene.module.ancestors(use)) for use in uses)


def _read(scene: Scene, transactions: Transactions, clocks: Flow, ids: Flow, found: Found) -> None:
    own = Gathering()
    transaction = transactions.of(found.call, found.node)
    within = scene.within(found.call or found.node)
    site = Site(
        lambda start, end: found.text.locate(scene.module, start, end),
        unit=found.unit,
        order=found.line,
        transaction=transaction,
        within=within,
        engine=_engine(scene, found.call),
        runs=_elsewhere(scene, found),
    )
    outcome = read_text(found.text.value, site, own, dialect=scene.settings.dialect or _dialect(scene, found.call))
    _newest(scene, found, own)
    for fact in own.everything():
        if isinstance(fact, WriteFact):
            fact = _computed(scene, found, outcome, _guarded(scene, found, fact))
        scene.gathering.add(fact)
    _holes(scene, clocks, ids, found, outcome)


_MAX = re.compile(r"^\s*select\s+max\s*\(\s*[\w.]+\s*\)(?:\s+(?:as\s+)?\w+)?\s+from\s+([\w.`\"]+)\s*;?\s*$", re.I)


def _newest(scene: Scene, found: Found, own: Gathering) -> None:
    """``SELECT max(ds) FROM source``, fetched to decide what is read next; of the table that is loaded it is a watermark."""
    match = _MAX.match(found.text.value)
    if match is None or found.call is None:
        return
    table = table_name(match[1])
    if any(same_table(write.target, table) for write in scene.gathering.all(WriteFact)) or table in _written_later(
        scene
    ):
        return
    own.add(ReadFact(scene.place(found.node), "sql", table, latest=True))


def _written_later(scene: Scene) -> set[str]:
    texts = re.findall(
        r"(?i)(?:insert\s+into|merge\s+into|saveAsTable\(|to_sql\(|insertInto\()\s*[\"'`]?([\w.]+)", scene.module.text
    )
    return {table_name(text) for text in texts}


def _elsewhere(scene: Scene, found: Found) -> Span | None:
    if found.call is None or not scene.constant_scope(found.node) or found.unit == scene.unit(found.node):
        return None
    return scene.module.span(found.call)


def _engine(scene: Scene, call: ast.Call | None) -> str:
    name = method(call) if call is not None else ""
    if name == "sql" or (name == "query" and scene.imports_any("google.cloud")):
        return "spark" if name == "sql" else "bigquery"
    if is_operator(name):
        for word in ("BigQuery", "Snowflake", "Hive", "Redshift", "Postgres", "MySql", "Databricks", "Athena", "Spark"):
            if word in name:
                return word.lower()
    if (
        not scene.database
        and call is not None
        and scene.imports_any("cassandra")
        and "session" in scene.module.source(call.func)
    ):
        return "cassandra"
    return scene.database or "sql"


def _dialect(scene: Scene, call: ast.Call | None) -> str:
    engine = _engine(scene, call)
    return {
        "sql": "",
        "cassandra": "",
        "hbase": "",
        "mysql": "mysql",
        "databricks": "databricks",
        "athena": "trino",
    }.get(engine, engine)


def _guarded(scene: Scene, found: Found, write: WriteFact) -> WriteFact:
    guards: set[Guard] = set(write.guards)
    if write.engine in ("cassandra", "hbase"):
        guards.add("upsert_store")
    if looks_first(scene, found.call or found.node):
        guards.add("looked_first")
    return replace(write, guards=frozenset(guards))


def _computed(scene: Scene, found: Found, outcome: ReadText, write: WriteFact) -> WriteFact:
    """An UPDATE whose new value was computed in Python from what a SELECT of this function fetched."""
    if write.merge is not None and write.merge.source_unique is None and _made_unique(scene, found):
        return replace(write, merge=replace(write.merge, source_unique=True))
    if write.verb != "update" or write.increments:
        return write
    fetched = Flow(scene.module, _is_fetch)
    for use in outcome.holes:
        value = found.text.holes.get(use.name) or _bound(found.call, use, outcome.holes)
        if use.use not in ("key_column", "audit_column") or value is None:
            continue
        computed = scene.module.value(value) if isinstance(value, ast.Name) else value
        if (
            isinstance(computed, ast.BinOp)
            and isinstance(computed.op, (ast.Add, ast.Sub, ast.Mult))
            and fetched.source(computed)
        ):
            return replace(write, increments=(use.column or "value",))
    return write


def _is_fetch(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and method(node) in ("fetchone", "fetchval", "scalar", "get_first", "fetchall")


def _made_unique(scene: Scene, found: Found) -> bool:
    """The function removes duplicates from what it stages before it merges."""
    return any(
        method(call) in ("drop_duplicates", "dropDuplicates", "groupby", "groupBy") and call.lineno < found.line
        for call in scene.module.calls
        if scene.module.unit(call) == scene.module.unit(found.call or found.node)
    )


_ASKS = {"fetchone", "fetchall", "first", "scalar", "scalar_one_or_none", "one_or_none", "exists", "count", "get_first", "head_object",
         "get_records", "fetchval", "find_one", "count_documents", "rowcount", "query", "isEmpty", "empty", "table_exists", "is_new"}  # fmt: skip


def looks_first(scene: Scene, node: ast.AST) -> bool:
    """The write stands under an ``if`` that asks whether the rows are already there."""
    for parent in scene.module.ancestors(node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if isinstance(parent, ast.If) and (_asks(scene, parent.test) or _asked(scene, parent.test)):
            return True
    return False


def _asks(scene: Scene, test: ast.expr) -> bool:
    for part in ast.walk(test):
        if isinstance(part, ast.Call) and (
            method(part) in _ASKS or re.search(r"exist|already|is_?new|processed|duplicate", method(part), re.I)
        ):
            return True
        if isinstance(part, ast.Compare) and any(isinstance(op, ast.NotIn) for op in part.ops):
            return True
        if isinstance(part, (ast.Name, ast.Attribute)):
            word = part.id if isinstance(part, ast.Name) else part.attr
            if re.search(r"exist|already|is_?new|duplicate|processed|seen", word, re.I):
                return True
    return False


def _asked(scene: Scene, test: ast.expr) -> bool:
    for part in ast.walk(test):
        if isinstance(part, ast.Name):
            value = scene.module.value(part)
            if value is not None and any(
                isinstance(call, ast.Call)
                and method(call)
                in (
                    "fetchone",
                    "fetchval",
                    "first",
                    "scalar",
                    "find_one",
                    "get_first",
                    "one_or_none",
                    "count",
                    "count_documents",
                )
                for call in ast.walk(value)
            ):
                return True
    return False


def _holes(scene: Scene, clocks: Flow, ids: Flow, found: Found, outcome: ReadText) -> None:
    """Values that code puts into the statement: a clock or a random id among them is a fact of its own."""
    for use in outcome.holes:
        value = found.text.holes.get(use.name)
        if value is None:
            value = _bound(found.call, use, outcome.holes)
        if value is None:
            continue
        clock = clocks.source(value)
        if clock is not None and not clock.optional:
            kind = use.use if use.use != "audit_column" or use.column else "key_column"
            reaches: Span = found.text.locate(scene.module, use.offset, use.offset + 6)
            place = replace(scene.place(clock.node), within=scene.within(found.call or found.node))
            fact = ClockFact(
                place, scene.module.source(clock.node, 40), kind, use.column, _at_import(scene, clock.node), reaches
            )
            scene.gathering.add(fact)
        random = ids.source(value)
        if random is not None and use.use in ("key_column", "audit_column"):
            scene.gathering.add(
                IdFact(scene.place(random.node), scene.module.source(random.node, 40), "random", use.column)
            )


def _bound(call: ast.Call | None, use: HoleUse, holes: list[HoleUse]) -> ast.expr | None:
    """The argument bound to a driver's placeholder."""
    if call is None or not is_bindable(call):
        return None
    values = call.args[1] if len(call.args) > 1 else keyword(call, "parameters", "params", "vars", "args")
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


def _at_import(scene: Scene, node: ast.AST) -> bool:
    return scene.module.unit(node) == MODULE


__all__ = ["collect_sql", "is_audit_column", "looks_first"]
