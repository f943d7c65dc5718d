"""Watermarks and offsets: what a job remembers about how far it got."""

from __future__ import annotations

import ast
import re

from twice.lint.collect.guards.skip_existing import values_behind
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import EffectFact, MarkFact, ReadFact, WriteFact
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method
from twice.lint.vocabulary import is_mark

_SETS = re.compile(r"^(set|save|update|store|write|put|record|mark|persist|commit|bump|advance)_?\w*", re.I)
_NEWEST = {"max", "sorted"}


def collect_marks(context: ModuleContext) -> None:
    for call in context.module.calls:
        name = method(call)
        dotted = context.module.dotted(call.func)
        if dotted.endswith("Variable.set") and call.args:
            context.gathering.add(*_steps(context, call))
            context.gathering.add(
                MarkFact(
                    context.place(call, transaction=f"call:{call.lineno}"),
                    constant(context.module, call.args[0]) or "Variable",
                    "mark",
                )
            )
        elif _SETS.match(name) and is_mark(name):
            context.gathering.add(MarkFact(context.place(call), name, "mark"))
        elif name in (
            "dump",
            "write",
            "write_text",
            "put_object",
            "put_item",
            "set",
            "hset",
            "put_parameter",
        ) and _names_a_mark(context, call):
            context.gathering.add(MarkFact(context.place(call, transaction=f"call:{call.lineno}"), name, "mark"))
        elif name in ("KafkaConsumer", "Consumer"):
            _consumer(context, call)
        elif (
            name == "commit"
            and isinstance(call.func, ast.Attribute)
            and "consumer" in context.module.source(call.func.value).lower()
        ):
            context.gathering.add(MarkFact(context.place(call), "offset", "offset"))
            _stored_after(context, call)
        elif name in _NEWEST or name == "glob":
            _newest(context, call, name)


def _steps(context: ModuleContext, call: ast.Call) -> list[WriteFact]:
    """A variable set to its own old value and something more: a task that is repeated steps twice."""
    key = constant(context.module, call.args[0])
    value = argument(call, 1, "value")
    made = values_behind(context, value)
    gets = [part for each in made for part in ast.walk(each) if isinstance(part, ast.Call) and method(part) == "get"]
    own = any(get.args and key and constant(context.module, get.args[0]) == key for get in gets)
    steps = any(
        isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Sub)) and _moves(context, part.right)
        for each in made
        for part in ast.walk(each)
    )
    if not (own and steps):
        return []
    place = context.place(call, transaction=f"call:{call.lineno}")
    return [WriteFact(place, "update", "airflow", f"variable {key}", "Variable.set()", increments=(key,))]


def _moves(context: ModuleContext, node: ast.expr) -> bool:
    return isinstance(literal(node), int) or (
        isinstance(node, ast.Call) and "delta" in context.module.dotted(node.func)
    )


def _names_a_mark(context: ModuleContext, call: ast.Call) -> bool:
    values = [*call.args, *(item.value for item in call.keywords), call.func]
    if isinstance(call.func, ast.Attribute):
        values.append(call.func.value)
    for value in values:
        text = constant(context.module, value) if not isinstance(value, ast.Attribute) else ""
        if text and len(text) < 120 and is_mark(text):
            return True
        if isinstance(value, (ast.Name, ast.Attribute)) and is_mark(context.module.source(value, 80)):
            return True
    for parent in context.module.ancestors(call):
        if isinstance(parent, ast.With):
            return any(
                is_mark(context.module.source(item.context_expr, 200))
                and re.search(r"['\"][wa]", context.module.source(item.context_expr, 200))
                for item in parent.items
            )
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
    return False


def _consumer(context: ModuleContext, call: ast.Call) -> None:
    auto = keyword(call, "enable_auto_commit")
    settings = call.args[0] if call.args else None
    if isinstance(settings, ast.Name):
        settings = context.module.value(settings)
    if auto is None and isinstance(settings, ast.Dict):
        for key, value in zip(settings.keys, settings.values, strict=False):
            if literal(key) == "enable.auto.commit":
                auto = value
    given = literal(auto)
    by_timer = auto is None or given is True or str(given).lower() == "true"
    if by_timer and (method(call) == "KafkaConsumer" or isinstance(settings, ast.Dict)):
        place = context.place(auto if auto is not None else call)
        context.gathering.add(MarkFact(place, "enable.auto.commit", "auto_offset"))


def _stored_after(context: ModuleContext, commit: ast.Call) -> None:
    """A function of this module that stores the message is called after the offset was committed."""
    unit = context.module.unit(commit)
    storing = {write.place.unit for write in context.gathering.all(WriteFact)} | {
        e.place.unit for e in context.gathering.all(EffectFact)
    }
    calls = [call for call in context.module.calls if method(call) in storing and context.module.unit(call) == unit]
    if calls and all(call.lineno > commit.lineno for call in calls):
        context.gathering.add(MarkFact(context.place(commit), "offset", "offset_first"))


def _newest(context: ModuleContext, call: ast.Call, name: str) -> None:
    """``max(glob(…), key=getctime)``, ``sorted(listdir(…))[-1]``: whatever file is newest."""
    if not call.args:
        return
    inside = context.module.source(call.args[0], 200)
    lists = re.search(r"glob|listdir|list_objects|list_blobs|iterdir|files", inside)
    parent = context.module.parent.get(call)
    picked = name == "max" or (isinstance(parent, ast.Subscript) and literal(parent.slice) in (-1, 0))
    if lists and picked and (name != "max" or keyword(call, "key") is not None or "glob" in inside):
        context.gathering.add(ReadFact(context.place(call), "file", inside[:60], latest=True))


__all__ = ["argument", "collect_marks"]
