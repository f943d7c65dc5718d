"""Spark's writers: ``df.write…``, ``df.writeTo(…)``, and helpers that get the mode from their caller."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from twice.lint.collect.frames.history import frame_sources, is_anti_joined, is_sliced, target_guards
from twice.lint.collect.guards.existence_checks import checks_existence
from twice.lint.collect.guards.skip_existing import is_after_mark, skips_existing
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import Guard, ReadFact, Verb, WriteFact
from twice.lint.resolve.chains import Chain, unroll
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method

_STORES = re.compile(r"cassandra|hbase|hudi|kudu|phoenix|redis|dynamodb|elasticsearch|cosmos", re.I)


def spark_write(context: ModuleContext, call: ast.Call, chain: Chain, end: str) -> None:
    """The fact of one writer chain. Without a mode Spark fails when the target exists, so nothing is doubled."""
    mode = _mode(context, call, chain, end)
    given = _mode_node(call, chain, end)
    if isinstance(given, ast.Name) and (calls := _callers(context, given)) is not None:
        _written_by_callers(context, call, given, calls)
        return
    verb: Verb
    if mode == "append" or (end == "insertInto" and mode != "overwrite"):
        verb = "append"
    elif mode == "overwrite":
        verb = "overwrite"
    else:
        return
    target = _target(context, call, chain, end)
    form = next((constant(context.module, part.args[0]) for part in chain.calls("format") if part.args), "") or end
    guards = _guards(context, call, chain, target, form)
    context.gathering.add(
        WriteFact(
            context.place(_spot(call, chain), transaction=""), verb, "kafka" if form == "kafka" else "spark", target,
            f'.write.mode("{mode or "append"}").{end}()', frozenset(guards), partition_by=_partitions(context, chain),
            sliced=is_sliced(context, call, chain),
            reads=() if "jdbc" in (end, form) else frame_sources(context, chain),
        )
    )  # fmt: skip


def _guards(context: ModuleContext, call: ast.Call, chain: Chain, target: str, form: str) -> set[Guard]:
    options = _options(context, chain)
    guards: set[Guard] = set(target_guards(target))
    operation = options.get("hoodie.datasource.write.operation", "upsert")
    if (_STORES.search(form) or any(_STORES.search(key) for key in options)) and "upsert" in operation:
        guards.add("upsert_store")
    if "mongo" in form and "replace" in options.get("operationtype", options.get("replacedocument", "")):
        guards.add("upsert_store")
    if "txnappid" in options and "txnversion" in options:
        guards.add("once_option")
    if "replacewhere" in options or chain.has("replaceWhere"):
        guards.add("replace_where")
    if options.get("partitionoverwritemode") == "dynamic":
        guards.add("dynamic_overwrite")
    if checks_existence(context, call):
        guards.add("looked_first")
    if is_anti_joined(context, chain) or skips_existing(context, call.func):
        guards.add("anti_join")
    if is_after_mark(context, call.func, target):
        guards.add("looked_first")
    return guards


def _partitions(context: ModuleContext, chain: Chain) -> tuple[str, ...]:
    return tuple(
        str(literal(value)) if isinstance(literal(value), str) else context.module.source(value, 30)
        for part in chain.calls("partitionBy")
        for value in _flat(part.args)
    )


def _spot(call: ast.Call, chain: Chain) -> ast.expr:
    """Where a reader looks: the mode, when it is in this chain, else the chain."""
    mode = next((part for part in chain.calls("mode")), None)
    return mode.args[0] if mode is not None and mode.args and _same_chain(mode, call) else call


def _same_chain(node: ast.Call, call: ast.Call) -> bool:
    return any(part is node for part in ast.walk(call))


def _flat(values: list[ast.expr]) -> list[ast.expr]:
    flat: list[ast.expr] = []
    for value in values:
        flat.extend(value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value])
    return flat


def _mode(context: ModuleContext, call: ast.Call, chain: Chain, end: str) -> str:
    if end == "insertInto":
        overwrite = argument(call, 1, "overwrite")
        if literal(overwrite) is True:
            return "overwrite"
    given = _mode_node(call, chain, end)
    text = constant(context.module, given).lower() if given is not None else ""
    return text or ("{unknown}" if given is not None else "")


def _mode_node(call: ast.Call, chain: Chain, end: str) -> ast.expr | None:
    given = keyword(call, "mode")
    if given is None and end in ("parquet", "orc", "csv", "json") and len(call.args) > 1:
        given = call.args[1]
    if given is None and end == "jdbc" and len(call.args) > 2:
        given = call.args[2]
    if given is None:
        given = next((part.args[0] for part in reversed(list(chain.calls("mode"))) if part.args), None)
    if given is None:
        given = next((keyword(part, "saveMode") for part in chain.calls("mode")), None)
    return given


def _callers(context: ModuleContext, name: ast.Name) -> list[ast.Call] | None:
    """The calls in this module of the function that has the name as a parameter; None when it is no parameter."""
    function = context.module.owner(name)
    if function is None or name.id not in {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}:
        return None
    if context.module.values.get((function.name, name.id)):
        return None
    return [call for call in context.module.calls if method(call) == function.name]


def given_to(context: ModuleContext, call: ast.Call, name: ast.Name) -> ast.expr | None:
    """What one call gives to the parameter `name` of the function `name` is in, or the default."""
    function = context.module.owner(name)
    if function is None:
        return None
    names = [a.arg for a in function.args.args]
    offset = 1 if names[:1] == ["self"] and isinstance(call.func, ast.Attribute) else 0
    given = keyword(call, name.id)
    if given is None and name.id in names and names.index(name.id) - offset < len(call.args):
        given = call.args[names.index(name.id) - offset]
    return given if given is not None else context.module.value(name)


def _written_by_callers(context: ModuleContext, write: ast.Call, mode: ast.Name, calls: list[ast.Call]) -> None:
    """A helper with a mode parameter: what it does is decided where it is called."""
    end = method(write)
    target_node = argument(write, 1 if end == "jdbc" else 0, "path", "name", "tableName", "table")
    for call in calls:
        if constant(context.module, given_to(context, call, mode)).lower() != "append":
            continue
        named = given_to(context, call, target_node) if isinstance(target_node, ast.Name) else target_node
        target = constant(context.module, named).lower() if named is not None else ""
        guards = set(target_guards(target))
        context.gathering.add(
            WriteFact(
                context.place(call, transaction=""),
                "append",
                "spark",
                target,
                f'{method(call)}(mode="append")',
                frozenset(guards),
            )
        )
    if not calls and constant(context.module, mode).lower() == "append":
        place = context.place(write, transaction="")
        place = replace(place, within=place.within | {"parameter"})
        context.gathering.add(
            WriteFact(
                place,
                "append",
                "spark",
                _target(context, write, unroll(context.module, write), end),
                '.write.mode("append" by default)',
            )
        )


def _target(context: ModuleContext, call: ast.Call, chain: Chain, end: str) -> str:
    value = argument(call, 1, "table") if end == "jdbc" else argument(call, 0, "path", "name", "tableName")
    options = _options(context, chain)
    text = constant(context.module, value) if value is not None else ""
    if not text and value is not None:
        text = "{" + context.module.source(value, 40).replace("{", "").replace("}", "") + "}"
    text = (
        text
        or options.get("path")
        or options.get("dbtable")
        or options.get("table")
        or options.get("collection")
        or options.get("topic")
        or ""
    )
    return text.strip().lower()


def _options(context: ModuleContext, chain: Chain) -> dict[str, str]:
    options: dict[str, str] = {}
    for call in chain.calls("option"):
        if len(call.args) > 1:
            named = constant(context.module, call.args[0]).lower()
            options[named] = (
                constant(context.module, call.args[1]).lower() or context.module.source(call.args[1], 40).lower()
            )
    for call in chain.calls("options"):
        for item in call.keywords:
            held = (
                context.module.value(item.value)
                if item.arg is None and isinstance(item.value, (ast.Name, ast.Attribute))
                else item.value
            )
            if item.arg is not None:
                options[item.arg.lower()] = constant(context.module, item.value).lower()
            elif isinstance(held, ast.Dict):
                for key, value in zip(held.keys, held.values, strict=False):
                    options[constant(context.module, key).lower()] = constant(context.module, value).lower()
    return options


def spark_read(context: ModuleContext, call: ast.Call) -> None:
    value = argument(call, 0, "path")
    target = constant(context.module, value).lower() if value is not None else ""
    if target:
        latest = bool(re.search(r"(^|/)latest(/|$)", target))
        context.gathering.add(ReadFact(context.place(call), "spark", target, latest=latest))


def write_to(context: ModuleContext, call: ast.Call, name: str) -> None:
    chain = unroll(context.module, call)
    start = next(iter(chain.calls("writeTo")), None)
    target = constant(context.module, start.args[0]).lower() if start is not None and start.args else ""
    guards: set[Guard] = set(target_guards(target))
    if is_anti_joined(context, chain):
        guards.add("anti_join")
    verb: Verb = "append" if name == "append" else "overwrite"
    if name == "overwritePartitions":
        guards.add("dynamic_overwrite")
    elif name == "overwrite":
        guards.add("replace_where")
    context.gathering.add(
        WriteFact(context.place(call, transaction=""), verb, "spark", target, f".writeTo().{name}()", frozenset(guards))
    )
