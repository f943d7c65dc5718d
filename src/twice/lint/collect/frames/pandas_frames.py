"""Writes of pandas, polars, awswrangler and delta-rs frames."""

from __future__ import annotations

import ast
import re

from twice.lint.collect.clients.client_writes import target_name
from twice.lint.collect.frames.history import target_guards
from twice.lint.collect.guards.existence_checks import checks_existence
from twice.lint.collect.guards.skip_existing import is_after_mark, skips_existing
from twice.lint.collect.guards.transactions import TransactionBlocks
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import Guard, Verb, WriteFact
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal

_CONNECTION = re.compile(r"(^|\.)\w*(conn|connection|session|cursor)\w*$", re.I)


def to_sql(context: ModuleContext, transactions: TransactionBlocks, call: ast.Call, name: str) -> None:
    given = keyword(call, "if_exists")
    target = target_name(context, argument(call, 0, "name", "destination_table"))
    if given is None and len(call.args) > 3:
        given = call.args[3]
    guards: set[Guard] = set(target_guards(target))
    if isinstance(given, ast.IfExp):
        guards.add("first_chunk_replaces")
        mode = "append"
    else:
        mode = constant(context.module, given).lower() if given is not None else "fail"
    if keyword(call, "method") is not None and "upsert" in context.module.source(keyword(call, "method")).lower():  # type: ignore[arg-type]
        guards.add("conflict_clause")
    if context.in_memory:
        guards.add("temporary")
    if _skips_existing(context, call):
        guards.add("anti_join")
    if checks_existence(context, call) or is_after_mark(context, call.func, target):
        guards.add("looked_first")
    if isinstance(given, (ast.Name, ast.Attribute)) and _switched(context, given):
        guards.add("first_chunk_replaces")
    verb: Verb | None = "append" if mode == "append" else "overwrite" if mode == "replace" else None
    if verb is None:
        return
    at = given if given is not None and verb == "append" else call
    at = call if at.lineno == call.lineno else at
    place = context.place(at, transaction=_transaction(context, transactions, call))
    context.gathering.add(WriteFact(place, verb, "pandas", target, f'{name}(if_exists="{mode}")', frozenset(guards)))


def _skips_existing(context: ModuleContext, call: ast.Call) -> bool:
    """The frame was made without the rows that are there: ``df[~df.id.isin(known)]``, or a merge kept to left_only."""
    frame = call.func.value if isinstance(call.func, ast.Attribute) else None
    made = [frame] if frame is not None else []
    if isinstance(frame, ast.Name):
        made += context.module.values.get((context.module.unit(frame), frame.id), [])
    filtered = any(re.search(r"~.{0,80}\.isin\(|left_only", context.module.source(value, 400)) for value in made)
    return filtered or skips_existing(context, frame)


def _switched(context: ModuleContext, given: ast.Name | ast.Attribute) -> bool:
    """The mode is a variable that becomes "append" after the first chunk."""
    if not isinstance(given, ast.Name):
        return False
    values = {
        literal(value)
        for value in context.module.values.get((context.module.unit(given), given.id), [])
        if isinstance(value, ast.Constant)
    }
    return {"replace", "append"} <= values


def _transaction(context: ModuleContext, transactions: TransactionBlocks, call: ast.Call) -> str:
    """The transaction of to_sql: its block's, its connection's, or its own when it gets an engine."""
    connection = argument(call, 1, "con")
    if connection is not None and _CONNECTION.search(context.module.source(connection)):
        return transactions.of(call)
    for parent in context.module.ancestors(call):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
        if isinstance(parent, ast.With) and any(
            "begin" in context.module.dotted(item.context_expr) for item in parent.items
        ):
            return f"with:{parent.lineno}"
    return ""


def write_file(context: ModuleContext, call: ast.Call, name: str) -> None:
    path = argument(call, 0, "path", "path_or_buf", "table_name", "table", "table_or_uri", "target")
    target = constant(context.module, path).strip().lower()
    guards: set[Guard] = set(target_guards(target))
    mode = constant(context.module, keyword(call, "mode", "if_table_exists", "if_exists")).lower()
    wrangler = "wrangler" in context.module.dotted(call.func)
    verb: Verb = "append"
    engine = "pandas"
    if mode in ("a", "append"):
        if checks_existence(context, call):
            guards.add("looked_first")
        engine = "file" if name in ("to_csv", "to_json") and not wrangler else "pandas"
        words = f'{name}(mode="{mode}")'
    elif mode in ("overwrite", "overwrite_partitions", "replace"):
        guards |= {"dynamic_overwrite"} if mode == "overwrite_partitions" else set()
        verb, words = "overwrite", f'{name}(mode="{mode}")'
    elif name == "to_parquet" and keyword(call, "partition_cols") is not None and not wrangler:
        if (
            keyword(call, "basename_template") is not None
            or literal(keyword(call, "existing_data_behavior")) is not None
        ):
            return
        words = "to_parquet(partition_cols=…)"
    elif wrangler and name == "to_parquet" and literal(keyword(call, "dataset")) is True and not mode:
        words = "to_parquet(dataset=True)"
    else:
        return
    place = context.place(call, transaction="")
    context.gathering.add(WriteFact(place, verb, engine, target, words, frozenset(guards)))
