"""Identifiers and samples that come out differently each time."""

from __future__ import annotations

import ast
import re

from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import IdFact
from twice.lint.resolve.flow import Flow
from twice.lint.resolve.module import LintedModule, keyword, literal, method

_RANDOM = re.compile(
    r"(^|\.)(uuid\.uuid[14]|uuid[14]|secrets\.\w+|shortuuid\.\w+|ulid\.\w+|nanoid\.generate|"
    r"random\.(randint|random|choice|choices|getrandbits|randrange|uniform|sample)|numpy\.random\.\w+|"
    r"functions\.uuid|bson\.ObjectId)(\(\))?$"
)
_ENGINE = {"monotonically_increasing_id", "zipWithIndex", "zipWithUniqueId", "monotonicallyIncreasingId"}
_NOT_STORED = re.compile(
    r"tmp|temp|^jti$|trace|span|request|correlation|session|consumer|group|client|app|query_?id|job|nonce|token|secret|password|lock|"
    r"salt|state|seed|boundary|proxy|agent|sleep|delay|jitter|wait|worker|thread|container|cluster|pod|file_?name|path|dir|prefix|"
    r"suffix|port|bucket_name|color|test|dag_id|task_id|key_?pair|state_machine|execution_name|cache|checkpoint_?(dir|loc\w*)?$|"
    r"stage_name|view|table_?name|staging|name$|conn",
    re.IGNORECASE,
)  # fmt: skip
_ID_NAME = re.compile(
    r"(^|_)(id|ids|key|sk|pk|uuid|guid|uid|hash|identifier|batch|ref|code|number|surrogate)(_|$)|id$|uuid|batch", re.I
)
_STORING = {
    "withColumn", "assign", "insert", "lit", "execute", "executemany", "append", "insert_one", "insert_many",
    "DataFrame", "Row",
            "to_sql", "put_item", "insert_rows_json", "send", "publish", "produce", "run", "add", "execute_values",
            "writerow", "createDataFrame",
            "insert_rows", "index", "save", "create", "update", "extend", "upsert", "merge"}  # fmt: skip
_OBJECT = re.compile(
    r"^(put_object|upload_\w+|to_(csv|parquet|json|excel|pickle)|load_(file|string|bytes)|put_file|Object|blob|Blob)$"
)
_SAMPLES = {"sample", "randomSplit", "train_test_split", "sampleBy", "takeSample", "shuffle"}
_SEEDS = ("seed", "random_state", "withReplacement_seed")


def is_random_call(module: LintedModule, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if _RANDOM.search(module.dotted(node.func)):
        return True
    if method(node) in ("expr", "selectExpr") and node.args:
        return any(
            isinstance(literal(item), str) and re.search(r"\buuid\(\)", str(literal(item)), re.I) for item in node.args
        )
    return False


def random_flow(module: LintedModule) -> Flow:
    return Flow(module, lambda node: is_random_call(module, node))


def collect_ids(context: ModuleContext) -> None:
    seeded = any(method(call) == "seed" for call in context.module.calls)
    for call in context.module.calls:
        name = method(call)
        if is_random_call(context.module, call):
            _random(context, call, seeded)
        elif name in _ENGINE:
            context.gathering.add(IdFact(context.place(call), f"{name}()", "engine_row", _column(context, call)))
        elif (
            name in ("rand", "randn")
            and not call.args
            and not call.keywords
            and "functions" in context.module.dotted(call.func)
        ):
            context.gathering.add(IdFact(context.place(call), f"{name}()", "sample", name))
        elif name in _SAMPLES and not seeded and isinstance(call.func, (ast.Attribute, ast.Name)):
            _sample(context, call, name)
        elif isinstance(call.func, ast.Name) and call.func.id == "hash" and "hash" not in context.module.functions:
            _hash(context, call)


def _random(context: ModuleContext, call: ast.Call, seeded: bool) -> None:
    dotted = context.module.dotted(call.func)
    plain = "random." in dotted and "uuid" not in dotted
    column = _column(context, call)
    if plain and (seeded or not (column and _ID_NAME.search(column))):
        return
    if not column or _NOT_STORED.search(column):
        return
    if method(call) in ("expr", "selectExpr") and method(call) == "selectExpr":
        column = column or "id"
    holder = context.module.parent.get(call)
    if _is_plain_name(context, call) and not _is_stored(context, call, column):
        return
    if isinstance(holder, ast.keyword) and not _ID_NAME.search(column):
        return
    context.gathering.add(IdFact(context.place(call), context.module.source(call, 40), "random", column))


def _column(context: ModuleContext, call: ast.AST) -> str:
    """The name of the column, key or variable the value ends in, going outwards from the call."""
    child: ast.AST = call
    for parent in context.module.ancestors(call):
        name = _column_at(context, parent, child)
        if name is not None:
            return name
        child = parent
    return ""


def _column_at(context: ModuleContext, parent: ast.AST, child: ast.AST) -> str | None:
    """What the node around a value calls it: "" where it is no column, None where the next node outwards decides."""
    match parent:
        case ast.Call():
            return _column_of_call(parent, child)
        case ast.keyword():
            around = context.module.parent.get(parent)
            if parent.arg == "default_factory":
                return None
            return "" if isinstance(around, ast.Call) and method(around) in ("sample", "sleep") else parent.arg or ""
        case ast.Dict():
            keys = [key for key, value in zip(parent.keys, parent.values, strict=False) if value is child]
            return str(literal(keys[0]) or "") if keys else ""
        case ast.Assign():
            return _target_name(parent.targets[0])
        case ast.AnnAssign():
            return _target_name(parent.target)
        case ast.Return():
            function = context.module.owner(parent)
            wanted = function is not None and _ID_NAME.search(function.name) and "run" not in function.name
            return function.name if function is not None and wanted else ""
        case ast.stmt():
            return ""
        case _:
            return None


def _column_of_call(call: ast.Call, child: ast.AST) -> str | None:
    name, given = method(call), child is not call.func
    if given and name in ("withColumn", "insert") and call.args and call.args[0] is not child:
        return str(literal(call.args[-2]) or "id")
    if given and name in ("execute", "executemany", "run", "writerow", "append"):
        return "id"
    if not given and name in ("alias", "name") and call.args:
        return str(literal(call.args[0]) or "id")
    if given and _OBJECT.match(name):
        return "object key"
    return "id" if name == "selectExpr" else None


def _target_name(target: ast.expr) -> str:
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        return target.attr
    if isinstance(target, ast.Subscript):
        return str(literal(target.slice) or "")
    return ""


def _is_plain_name(context: ModuleContext, call: ast.Call) -> bool:
    child: ast.AST = call
    for parent in context.module.ancestors(call):
        if isinstance(parent, ast.Assign):
            return isinstance(parent.targets[0], (ast.Name, ast.Attribute))
        if isinstance(parent, (ast.Dict, ast.keyword)):
            return False
        if isinstance(parent, ast.Call) and method(parent) in (
            "withColumn",
            "insert",
            "execute",
            "executemany",
            "append",
            "select",
        ):
            return False
        if isinstance(parent, ast.Call) and method(parent) in ("alias", "name") and child is parent.func:
            return False
        child = parent
        if isinstance(parent, ast.stmt):
            return False
    return False


def _is_stored(context: ModuleContext, call: ast.Call, name: str) -> bool:
    """A variable that ends in something stored: a row, a column, a parameter of a statement."""
    if not _ID_NAME.search(name):
        return False
    unit = context.module.unit(call)
    anywhere = unit == "<module>" or any(isinstance(item, ast.Attribute) for item in context.module.uses(name))
    for use in context.module.uses(name, None if anywhere else unit):
        for parent in context.module.ancestors(use):
            if isinstance(parent, ast.Call):
                word = method(parent)
                if word in _STORING:
                    return True
                if word in context.module.functions or word[:1].isupper():
                    return True
                if word in ("info", "debug", "print", "warning", "error"):
                    break
            elif isinstance(parent, (ast.Dict, ast.Return)) or (
                isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Subscript)
            ):
                return True
            elif isinstance(parent, ast.stmt):
                break
    return False


def _sample(context: ModuleContext, call: ast.Call, name: str) -> None:
    if keyword(call, *_SEEDS) is not None or literal(keyword(call, "shuffle")) is False:
        return
    receiver = context.module.dotted(call.func)
    if name == "shuffle" and "random" not in receiver:
        return
    if name == "sample" and (receiver.startswith("random") or len(call.args) > 2):
        return
    if name == "randomSplit" and len(call.args) > 1:
        return
    if literal(keyword(call, "frac")) == 1:
        return
    context.gathering.add(IdFact(context.place(call), f"{name}()", "sample", name))


def _hash(context: ModuleContext, call: ast.Call) -> None:
    function = context.module.owner(call)
    if function is not None and function.name in ("__hash__", "__eq__"):
        return
    context.gathering.add(IdFact(context.place(call), context.module.source(call, 40), "hash", _column(context, call)))
