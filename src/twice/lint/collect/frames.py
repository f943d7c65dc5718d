"""Writes and reads of data frames, handed to whoever knows the library."""

from __future__ import annotations

import ast

from twice.lint.collect.merges import delta_merge, is_delta_merge
from twice.lint.collect.module_context import Scene
from twice.lint.collect.pandas_frames import to_sql, write_file
from twice.lint.collect.spark_frames import spark_read, spark_write, write_to
from twice.lint.resolve.chains import unroll
from twice.lint.resolve.module import literal, method

_ENDS = {
    "save", "saveAsTable", "insertInto", "parquet", "csv", "json", "orc", "jdbc", "text", "avro", "delta", "mongo",
    "save_as_table",
}  # fmt: skip


def collect_frames(scene: Scene) -> None:
    _confs(scene)
    for call in scene.module.calls:
        name = method(call)
        if not isinstance(call.func, ast.Attribute):
            continue
        if name in _ENDS:
            chain = unroll(scene.module, call)
            if chain.has("write"):
                spark_write(scene, call, chain, name)
            elif chain.has("read", "readStream"):
                spark_read(scene, call)
        elif name in ("append", "overwritePartitions", "createOrReplace", "overwrite") and unroll(
            scene.module, call
        ).has("writeTo"):
            write_to(scene, call, name)
        elif name == "table" and unroll(scene.module, call).root is not None:
            spark_read(scene, call)
        elif name == "to_sql" or name == "to_gbq":
            to_sql(scene, call, name)
        elif name == "merge" and is_delta_merge(scene, call):
            delta_merge(scene, call)
        elif name in (
            "to_parquet",
            "to_csv",
            "to_json",
            "write_database",
            "write_table",
            "write_deltalake",
            "write_delta",
        ):
            write_file(scene, call, name)


def _confs(scene: Scene) -> None:
    """Dynamic overwrite, wherever a session or its configuration is built."""
    for node in scene.module.nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "partitionoverwritemode" in node.value.lower()
        ):
            if node.value.lower().endswith("dynamic") or "=dynamic" in node.value.lower().replace(" ", ""):
                scene.gathering.traits.add("dynamic_overwrite")
                continue
            holder = scene.module.parent.get(node)
            texts = (
                [str(literal(part)).lower() for part in ast.walk(holder) if isinstance(part, ast.Constant)]
                if holder
                else []
            )
            if "dynamic" in texts:
                scene.gathering.traits.add("dynamic_overwrite")
    if scene.is_spark:
        scene.gathering.traits.add("spark")
