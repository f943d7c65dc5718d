"""Merges through the API of Delta tables."""

from __future__ import annotations

import ast
import re

from twice.lint.collect.frames.history import frame_history
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import MergeShape, WriteFact
from twice.lint.resolve.chains import unroll
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method


def is_delta_merge(context: ModuleContext, call: ast.Call) -> bool:
    """DeltaTable.merge(source, condition), known from pandas' merge by what follows it."""
    outer: ast.AST = call
    while isinstance(context.module.parent.get(outer), (ast.Attribute, ast.Call)):
        outer = context.module.parent[outer]
        if isinstance(outer, ast.Attribute) and outer.attr.startswith("when"):
            return True
    return "DeltaTable" in context.module.origin(call.func.value if isinstance(call.func, ast.Attribute) else call)


def delta_merge(context: ModuleContext, call: ast.Call) -> None:
    outer: ast.AST = call
    words: list[tuple[str, ast.Call | None]] = []
    while isinstance(context.module.parent.get(outer), (ast.Attribute, ast.Call)):
        outer = context.module.parent[outer]
        if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Attribute):
            words.append((outer.func.attr, outer))
    names = [word for word, _ in words]
    updates = [
        item
        for word, item in words
        if word in ("whenMatchedUpdate", "whenMatchedUpdateAll", "when_matched_update", "when_matched_update_all")
    ]
    versioned = bool(updates) and all(
        item is not None
        and (keyword(item, "condition", "predicate") is not None or (item.args and method(item).endswith("All")))
        for item in updates
    )
    source = argument(call, 0, "source")
    unique = _is_unique(context, source)
    root = unroll(context.module, call)
    target = ""
    for part in root.calls("forName", "forPath"):
        target = constant(context.module, argument(part, 1, "path", "tableOrViewName")).lower()
    condition = constant(context.module, argument(call, 1, "condition", "predicate"))
    shape = MergeShape(
        context.module.source(source, 40) if source is not None else "the source",
        unique,
        bool(updates),
        versioned,
        any("NotMatched" in n or "not_matched" in n for n in names),
    )
    context.gathering.add(
        WriteFact(
            context.place(call, transaction=""), "merge", "spark", target, "DeltaTable.merge()",
            frozenset({"conflict_clause"}), merge=shape, key=tuple(re.findall(r"\w+\.(\w+)\s*=", condition)),
            increments=_adds(context, words), nothing_on_conflict=not updates,
        )
    )  # fmt: skip


def _adds(context: ModuleContext, words: list[tuple[str, ast.Call | None]]) -> tuple[str, ...]:
    found = []
    for _, call in words:
        for part in ast.walk(call) if call is not None else ():
            if isinstance(part, ast.Dict):
                for key, value in zip(part.keys, part.values, strict=False):
                    name, text = (
                        str(literal(key) or "").split(".")[-1],
                        constant(context.module, value) or context.module.source(value, 120),
                    )
                    if name and re.search(
                        rf"\b(t|target|tgt|base|old|existing|main)\.{re.escape(name)}\b[^,]*[-+]|[-+]\s*(t|target|tgt)\.{re.escape(name)}\b",
                        text,
                    ):
                        found.append(name)
    return tuple(found)


def _is_unique(context: ModuleContext, source: ast.expr | None) -> bool | None:
    if source is None:
        return None
    calls = frame_history(context, unroll(context.module, source))
    if isinstance(source, ast.Name) and not context.module.values.get((context.module.unit(source), source.id)):
        # The frame is a parameter: look at what else this function does with it.
        function = context.module.owner(source)
        calls += [part for part in ast.walk(function) if isinstance(part, ast.Call)] if function is not None else []
    names = {method(inner) for part in calls for inner in ast.walk(part) if isinstance(inner, ast.Call)}
    if names & {
        "dropDuplicates",
        "drop_duplicates",
        "groupBy",
        "groupby",
        "distinct",
        "row_number",
        "Window",
        "max_by",
    }:
        return True
    texts = " ".join(
        constant(context.module, part.args[0]).lower() for part in calls if method(part) == "sql" and part.args
    )
    return True if re.search(r"row_number|group\s+by|distinct", texts) else None
