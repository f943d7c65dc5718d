"""Writes and reads of data frames, handed to whoever knows the library."""

from __future__ import annotations

import ast

from twice.lint.collect.frames.merges import delta_merge, is_delta_merge
from twice.lint.collect.frames.pandas_frames import to_sql, write_file
from twice.lint.collect.frames.spark_frames import spark_read, spark_write, write_to
from twice.lint.collect.guards.transactions import TransactionBlocks
from twice.lint.collect.module_context import ModuleContext
from twice.lint.resolve.chains import unroll
from twice.lint.resolve.module import literal, method

_ENDS = {
    "save", "saveAsTable", "insertInto", "parquet", "csv", "json", "orc", "jdbc", "text", "avro", "delta", "mongo",
    "save_as_table",
}  # fmt: skip


def collect_frames(context: ModuleContext, transactions: TransactionBlocks) -> None:
    _confs(context)
    for call in context.module.calls:
        name = method(call)
        if not isinstance(call.func, ast.Attribute):
            continue
        if name in _ENDS:
            chain = unroll(context.module, call)
            if chain.has("write"):
                spark_write(context, call, chain, name)
            elif chain.has("read", "readStream"):
                spark_read(context, call)
        elif name in ("append", "overwritePartitions", "createOrReplace", "overwrite") and unroll(
            context.module, call
        ).has("writeTo"):
            write_to(context, call, name)
        elif name == "table" and unroll(context.module, call).root is not None:
            spark_read(context, call)
        elif name == "to_sql" or name == "to_gbq":
            to_sql(context, transactions, call, name)
        elif name == "merge" and is_delta_merge(context, call):
            delta_merge(context, call)
        elif name in (
            "to_parquet",
            "to_csv",
            "to_json",
            "write_database",
            "write_table",
            "write_deltalake",
            "write_delta",
        ):
            write_file(context, call, name)


def _confs(context: ModuleContext) -> None:
    """Dynamic overwrite, wherever a session or its configuration is built."""
    for node in context.module.nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "partitionoverwritemode" in node.value.lower()
        ):
            if node.value.lower().endswith("dynamic") or "=dynamic" in node.value.lower().replace(" ", ""):
                context.gathering.traits.add("dynamic_overwrite")
                continue
            holder = context.module.parent.get(node)
            texts = (
                [str(literal(part)).lower() for part in ast.walk(holder) if isinstance(part, ast.Constant)]
                if holder
                else []
            )
            if "dynamic" in texts:
                context.gathering.traits.add("dynamic_overwrite")
    if context.is_spark:
        context.gathering.traits.add("spark")
