"""Clocks read by Python code, and what their value decides."""

from __future__ import annotations

import ast
import re

from twice.lint.collect.clocks.clock_calls import CLOCK_IN_SHELL, CLOCK_IN_TEXT, STATEMENT
from twice.lint.collect.clocks.clock_uses import (
    DATE_WORD,
    Facts,
    argument_defaults,
    clock_stored,
    clock_use,
    fills_in,
    returned_defaults,
)
from twice.lint.collect.module_context import ModuleContext, is_operator
from twice.lint.facts import ClockFact
from twice.lint.resolve.flow import Flow, Source
from twice.lint.resolve.folding import constant, fold
from twice.lint.resolve.module import MODULE, literal, method

_BARE = {"now", "utcnow", "today"}
_FILTERS = {"filter", "where", "query", "having", "filter_by"}
_READS = re.compile(
    r"^(read_\w+|load|parquet|csv|json|orc|textFile|table|open|glob|iglob|listdir|scandir|get_object|"
    r"download_\w+|list_objects\w*|list_blobs|rglob|wholeTextFiles|get_key|read_key|urlretrieve|FTP|"
    r"retrbinary)$"
)
_WRITES = re.compile(
    r"^(to_(csv|parquet|json|excel|pickle|feather|sql|gbq|orc)|save|saveAsTable|insertInto|put_object|"
    r"upload_\w+|put_file|load_file|load_string|load_bytes|blob|copy_object|write_(csv|parquet|json|text|"
    r"bytes|table)|dump|copyfile|move|export\w*|create_table|load_table_from_\w+|key|never)$"
)
_WINDOW = re.compile(
    r"^(start|end|since|until|from_?|to|date|start_?date|end_?date|from_?date|to_?date|date_?from|date_?to|"
    r"start_?time|end_?time|updated_?(since|after)|created_?(after|before)|begin|after|before|day|ds|dt|"
    r"min_?date|max_?date|startDate|endDate|time_?min|time_?max|period\w*|run_date|params)$",
    re.I,
)
_HTTP = {"get", "post", "put", "patch", "request", "urlopen"}
_SPARK_COLUMN = {"withColumn", "withColumns", "assign", "insert", "lit"}
_RANK: dict[str, int] = {
    "dag": 6,
    "default": 5,
    "filter": 4,
    "path": 3,
    "window": 2,
    "key_column": 1,
    "audit_column": 0,
}


def collect_clocks(context: ModuleContext, flow: Flow) -> None:
    best: dict[ast.AST, tuple[int, ClockFact]] = {}
    for fact, source in _facts(context, flow):
        rank = _RANK[fact.use]
        if source.node not in best or best[source.node][0] < rank:
            best[source.node] = (rank, fact)
    for _, fact in best.values():
        context.gathering.add(fact)


def _facts(context: ModuleContext, flow: Flow) -> Facts:
    for node in context.module.nodes:
        if isinstance(node, ast.Call):
            yield from _call(context, flow, node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from argument_defaults(context, flow, node)
            yield from returned_defaults(context, flow, node)
        elif isinstance(node, ast.Assign):
            yield from _assign(context, flow, node)
        elif isinstance(node, ast.Subscript) and any(isinstance(part, ast.Compare) for part in ast.walk(node.slice)):
            yield from clock_use(context, flow.source(node.slice), "filter", node, "")
        elif isinstance(node, ast.Dict):
            yield from _dictionary(context, flow, node)


def _call(context: ModuleContext, flow: Flow, call: ast.Call) -> Facts:
    name = method(call)
    attribute = isinstance(call.func, ast.Attribute)
    if name in ("DAG", "dag") or is_operator(name):
        yield from _dag(context, flow, call)
        return
    if name in _FILTERS and attribute and call.args:
        yield from _conditions(context, flow, call)
        return
    if name == "option" and attribute and len(call.args) > 1 and literal(call.args[0]) == "replaceWhere":
        word = CLOCK_IN_TEXT.search(constant(context.module, call.args[1]))
        if word is not None:
            value = call.args[1]
            yield ClockFact(context.place(value), word[0], "filter", reaches=context.module.span(call)), Source(value)
        return
    if name == "add_argument" or name in ("Option", "option", "Argument"):
        for item in call.keywords:
            if item.arg in ("default", "default_factory"):
                source = flow.source(item.value)
                if source is not None:
                    yield from clock_use(context, Source(source.node, True), "default", call, "default date")
        return
    if name == "alias" and isinstance(call.func, ast.Attribute) and call.args and _is_selected(context, call):
        yield from clock_stored(context, flow, call.func.value, str(literal(call.args[0]) or ""), call)
        return
    if name in _SPARK_COLUMN and attribute:
        yield from _columns(context, flow, call, name)
        return
    yield from _paths(context, flow, call, name)
    yield from _window(context, flow, call, name)
    yield from _fallbacks(context, flow, call, name)


def _conditions(context: ModuleContext, flow: Flow, call: ast.Call) -> Facts:
    for value in call.args:
        yield from clock_use(context, flow.source(value), "filter", call, "")
        text = fold(context.module, value) if not isinstance(value, ast.Call) else None
        word = CLOCK_IN_TEXT.search(text.value) if text is not None and not STATEMENT.match(text.value) else None
        if word is not None:
            yield ClockFact(context.place(value), word[0], "filter", reaches=context.module.span(call)), Source(value)


def _fallbacks(context: ModuleContext, flow: Flow, call: ast.Call, name: str) -> Facts:
    """``getenv("DAY", today)`` and its like: a setting that becomes now when nobody gives one."""
    fallback = next((item.value for item in call.keywords if item.arg in ("default_var", "default")), None)
    given = flow.source(fallback) if name in ("get", "getenv") else None
    if given is not None:
        yield from clock_use(context, Source(given.node, True), "default", call, "date")
    if name in ("getenv", "get") and len(call.args) == 2 and isinstance(literal(call.args[0]), str):
        source = flow.source(call.args[1])
        if source is not None:
            yield from clock_use(context, Source(source.node, True), "default", call, str(literal(call.args[0])))


def _paths(context: ModuleContext, flow: Flow, call: ast.Call, name: str) -> Facts:
    if not (_READS.match(name) or _WRITES.match(name)):
        return
    for value in [*call.args, *(item.value for item in call.keywords if item.arg)]:
        if not _is_text(value):
            continue
        source = flow.source(value)
        if source is None:
            continue
        text = fold(context.module, value)
        if text is not None and re.search(r"\blogs?/|\.log$|\blog_|backup|/tmp/|error", text.value, re.I):
            continue
        yield from clock_use(context, source, "path", call, name)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, (ast.JoinedStr, ast.BinOp, ast.Name, ast.Attribute)) or (
        isinstance(value, ast.Call) and method(value) in ("format", "join", "str", "strftime", "Path")
    )


def _window(context: ModuleContext, flow: Flow, call: ast.Call, name: str) -> Facts:
    receiver = context.module.dotted(call.func)
    if name in _HTTP and re.search(r"requests|httpx|session|http|urllib|client|aiohttp", receiver, re.I):
        for value in [
            *call.args,
            *(item.value for item in call.keywords if item.arg in ("params", "json", "data", "url")),
        ]:
            source = flow.source(value) or _in_dictionary(context, flow, value)
            if source is not None and not (isinstance(value, ast.Name) and "payload" in value.id and name == "post"):
                yield from clock_use(context, source, "window", call, name)
        return
    if re.search(
        r"log|print|timedelta|datetime|relativedelta|sleep|metric|span|assert|DAG|Interval|date_range", receiver, re.I
    ):
        return
    for item in call.keywords:
        if item.arg and _WINDOW.match(item.arg):
            yield from clock_use(context, flow.source(item.value), "window", call, item.arg)


def _in_dictionary(context: ModuleContext, flow: Flow, value: ast.expr) -> Source | None:
    if isinstance(value, ast.Name):
        value = context.module.value(value) or value
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=False):
            if isinstance(literal(key), str) and DATE_WORD.search(str(literal(key))):
                found = flow.source(item)
                if found is not None:
                    return found
    return None


def _dag(context: ModuleContext, flow: Flow, call: ast.Call) -> Facts:
    for item in call.keywords:
        if item.arg in ("on_failure_callback", "end_date", "schedule", "schedule_interval", None):
            continue
        yield from clock_use(context, flow.source(item.value), "dag", call, item.arg or "")
        command = CLOCK_IN_SHELL.search(constant(context.module, item.value)) if item.arg == "bash_command" else None
        if command is not None:
            fact = ClockFact(context.place(item.value), command[0], "dag", item.arg or "")
            yield fact, Source(item.value)


def _columns(context: ModuleContext, flow: Flow, call: ast.Call, name: str) -> Facts:
    if name == "withColumn" and len(call.args) > 1:
        column = str(literal(call.args[0]) or "")
        yield from clock_stored(context, flow, call.args[1], column, call)
    elif name in ("withColumns", "assign"):
        for item in call.keywords:
            yield from clock_stored(context, flow, item.value, item.arg or "", call)
    elif name == "insert" and len(call.args) == 3:
        yield from clock_stored(context, flow, call.args[2], str(literal(call.args[1]) or ""), call)


def _is_selected(context: ModuleContext, call: ast.Call) -> bool:
    """The expression is in a select: what it is named there is a column of the result."""
    return any(isinstance(parent, ast.Call) and method(parent) == "select" for parent in context.module.ancestors(call))


def _assign(context: ModuleContext, flow: Flow, node: ast.Assign) -> Facts:
    target = node.targets[0]
    if isinstance(target, ast.Subscript) and isinstance(literal(target.slice), str):
        name = str(literal(target.slice))
        frame = isinstance(target.value, ast.Name) and re.search(
            r"df|frame|data|table|row|record|item|doc|out", target.value.id, re.I
        )
        if frame:
            yield from clock_stored(context, flow, node.value, name, node)
    elif isinstance(target, ast.Name):
        source = flow.source(node.value)
        if source is None:
            return
        if context.is_dag and context.module.unit(node) == MODULE and not source.optional and _used(context, target.id):
            yield from clock_use(context, source, "dag", node, target.id)
        elif DATE_WORD.search(target.id) and (
            isinstance(node.value, (ast.IfExp, ast.BoolOp)) or fills_in(context, node, target.id)
        ):
            yield from clock_use(context, Source(source.node, True), "default", node, target.id)


def _used(context: ModuleContext, name: str) -> bool:
    return any(isinstance(use, ast.Name) for use in context.module.uses(name))


def _dictionary(context: ModuleContext, flow: Flow, node: ast.Dict) -> Facts:
    """default_args of a DAG, and rows written as dictionaries."""
    pairs = [
        (str(literal(key)), value)
        for key, value in zip(node.keys, node.values, strict=False)
        if isinstance(literal(key), str)
    ]
    if context.is_dag and any(key in ("owner", "retries", "depends_on_past") for key, _ in pairs):
        for key, value in pairs:
            if key == "start_date":
                yield from clock_use(context, flow.source(value), "dag", node, key)
        return
    parent = context.module.parent.get(node)
    parent = context.module.parent.get(parent) if isinstance(parent, ast.List) else parent
    if isinstance(parent, ast.Call) and method(parent) in (
        "insert_one",
        "insert_many",
        "DataFrame",
        "Row",
        "append",
        "put_item",
        "insert_rows_json",
        "index",
    ):
        for key, value in pairs:
            yield from clock_stored(context, flow, value, key, node)
