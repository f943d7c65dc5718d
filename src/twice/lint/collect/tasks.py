"""Schedulers: DAGs, tasks, retries, and which functions and files they run; and failures of writes that are noted and
forgotten, so that no scheduler sees them.
"""

from __future__ import annotations

import ast
import re

from twice.lint.collect.module_context import ModuleContext, is_operator
from twice.lint.facts import SwallowFact, TaskFact, WriteFact
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import Function, keyword, literal, method

_RETRY = re.compile(r"(^|\.)(retry|retrying|backoff\.on_exception|on_exception|tenacity\.retry|stamina\.retry)(\(\))?$")


def collect_tasks(context: ModuleContext) -> None:
    defaults = _default_args(context)
    for call in context.module.calls:
        name = method(call)
        if name in ("DAG", "dag") and context.imports_any("airflow"):
            context.gathering.add(_dag(context, call, defaults))
            context.gathering.traits.add("airflow")
        elif is_operator(name):
            context.gathering.add(_operator(context, call))
    if defaults is not None and not any(method(call) in ("DAG", "dag") for call in context.module.calls):
        retries = _integer(context, defaults.get("retries"))
        if retries:
            context.gathering.add(
                TaskFact(context.module.span(next(iter(defaults.values()))), "dag", "default_args", retries=retries)
            )
    for function in context.module.functions.values():
        for decorator in function.decorator_list:
            _decorated(context, function, decorator)


def _default_args(context: ModuleContext) -> dict[str, ast.expr] | None:
    for (_, name), values in context.module.values.items():
        if name.endswith("default_args") or name in ("default_dag_args", "DEFAULT_ARGS", "args"):
            for value in values:
                if isinstance(value, ast.Dict):
                    found = {
                        str(literal(key)): item for key, item in zip(value.keys, value.values, strict=False) if key
                    }
                    if found.keys() & {"owner", "retries", "start_date", "depends_on_past"}:
                        return found
                if isinstance(value, ast.Call) and method(value) == "dict":
                    return {str(item.arg): item.value for item in value.keywords}
    for call in context.module.calls:
        inline = keyword(call, "default_args")
        if isinstance(inline, ast.Dict):
            return {str(literal(key)): item for key, item in zip(inline.keys, inline.values, strict=False) if key}
    return None


def _dag(context: ModuleContext, call: ast.Call, defaults: dict[str, ast.expr] | None) -> TaskFact:
    given = {item.arg: item.value for item in call.keywords if item.arg}
    schedule = given.get("schedule_interval") or given.get("schedule") or given.get("timetable")
    retries_node = (defaults or {}).get("retries")
    past = (defaults or {}).get("depends_on_past")
    span = context.module.span(retries_node or call)
    return TaskFact(
        span,
        "dag",
        constant(context.module, given.get("dag_id") or (call.args[0] if call.args else None)) or "dag",
        retries=_integer(context, retries_node),
        schedule=_schedule(context, schedule),
        catchup=_boolean(given.get("catchup")),
        max_active_runs=_integer(context, given.get("max_active_runs")),
        depends_on_past=_boolean(past) is True,
        modules=tuple(sorted(value for value in context.imports if not value.startswith("airflow"))),
    )


def _schedule(context: ModuleContext, node: ast.expr | None) -> str:
    if node is None:
        return ""
    text = constant(context.module, node)
    if text:
        return text
    if isinstance(node, ast.Call) and method(node) == "timedelta":
        return "timedelta " + " ".join(f"{item.arg}={context.module.source(item.value)}" for item in node.keywords)
    return "" if isinstance(node, ast.Constant) else context.module.source(node)


def _operator(context: ModuleContext, call: ast.Call) -> TaskFact:
    task = constant(context.module, keyword(call, "task_id")) or str(call.lineno)
    run = keyword(call, "python_callable")
    units = [f"task {task}"]
    if isinstance(run, ast.Name):
        units.append(run.id)
    elif isinstance(run, ast.Attribute):
        units.append(run.attr)
    files = []
    for item in call.keywords:
        if item.arg in ("sql", "hql", "bash_command", "query"):
            for value in item.value.elts if isinstance(item.value, (ast.List, ast.Tuple)) else [item.value]:
                text = constant(context.module, value).strip()
                files.extend(re.findall(r"[\w./{}-]+\.(?:sql|hql)\b", text) if len(text) < 300 else [])
    own = keyword(call, "retries")
    return TaskFact(
        context.module.span(own or call), "task", task, tuple(units), retries=_integer(context, own),
        depends_on_past=_boolean(keyword(call, "depends_on_past")) is True, files=tuple(files),
    )  # fmt: skip


def _decorated(context: ModuleContext, function: Function, decorator: ast.expr) -> None:
    dotted = context.module.dotted(decorator)
    span = context.module.span(decorator)
    call = decorator if isinstance(decorator, ast.Call) else None
    if _RETRY.search(dotted):
        context.gathering.add(TaskFact(span, "retry", function.name, (function.name,), retries=3))
    elif re.search(r"(^|\.)(task|flow|op|asset|shared_task)(\(\))?$", dotted):
        retries = _integer(context, keyword(call, "retries", "max_retries")) if call is not None else None
        if call is not None and (
            keyword(call, "autoretry_for") is not None or keyword(call, "retry_policy") is not None
        ):
            retries = retries or 3
        context.gathering.add(TaskFact(span, "task", function.name, (function.name,), retries=retries))


def _integer(context: ModuleContext, node: ast.expr | None) -> int | None:
    if isinstance(node, ast.Name):
        node = context.module.value(node)
    value = literal(node)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _boolean(node: ast.expr | None) -> bool | None:
    value = literal(node)
    return value if isinstance(value, bool) else None


_BROAD = {
    "Exception",
    "BaseException",
    "Error",
    "DatabaseError",
    "OperationalError",
    "SQLAlchemyError",
    "IntegrityError",
}
_LEAVES = {"exit", "_exit", "fail", "abort", "fail_and_raise"}
_KEEPS = {"append", "add", "put", "send", "retry", "quarantine", "send_to_dlq"}


def collect_swallows(context: ModuleContext) -> None:
    """Runs after the writes are known: a handler matters only when a write is in its try block."""
    writes = [w for w in context.gathering.all(WriteFact) if w.verb not in ("create", "drop")]
    for node in context.module.nodes:
        if not isinstance(node, ast.Try):
            continue
        handler = _swallowing(node)
        if handler is None or "callback" in context.within(node):
            continue
        target = _written(context, node, writes)
        if target is not None:
            context.gathering.add(SwallowFact(context.place(handler), target))


def _swallowing(node: ast.Try) -> ast.ExceptHandler | None:
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = {
            kind.id if isinstance(kind, ast.Name) else kind.attr if isinstance(kind, ast.Attribute) else ""
            for kind in kinds
        }
        if handler.type is not None and not names & _BROAD:
            continue
        leaves = any(
            isinstance(part, (ast.Raise, ast.Return, ast.Break))
            or (isinstance(part, ast.Call) and method(part) in (_LEAVES | _KEEPS))
            for part in ast.walk(handler)
        )
        if not leaves:
            return handler
    return None


def _written(context: ModuleContext, node: ast.Try, writes: list[WriteFact]) -> str | None:
    """The target of a write in the block, or in a function of this module that the block calls."""
    first, last = node.body[0].lineno, max(getattr(part, "end_lineno", 0) or 0 for part in node.body)
    called = {
        method(part) for statement in node.body for part in ast.walk(statement) if isinstance(part, ast.Call)
    } & set(context.module.functions)
    for write in writes:
        inside = first <= write.place.order <= last or first <= write.place.span.line <= last
        if inside or write.place.unit in called:
            return write.target
    return None
