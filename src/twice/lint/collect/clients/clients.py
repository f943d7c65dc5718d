"""Rows added through database clients, hooks, operators, ORMs and files opened for appending."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Callable, Iterator

from twice.lint.collect.clients.bigquery import dispositions, load_job
from twice.lint.collect.clients.client_writes import ClientWrite, client_write, target_name
from twice.lint.collect.clients.file_writes import (
    FILE_WRITERS,
    REMOVERS,
    file_write,
    opened_to_append,
    operator_files,
    removed,
)
from twice.lint.collect.clients.object_writes import (
    ORM_METHODS,
    collection_of,
    document_guards,
    document_steps,
    executed_statement,
    field_steps,
    orm_insert,
)
from twice.lint.collect.guards.skip_existing import skips_existing
from twice.lint.collect.module_context import ModuleContext, is_operator
from twice.lint.facts import Guard, WriteFact
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method


def collect_clients(context: ModuleContext) -> None:
    for call in context.module.calls:
        name = method(call)
        for fact in _facts(context, call, name):
            context.gathering.add(fact)
    for fact in dispositions(context):
        context.gathering.add(fact)


def _facts(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """What one call writes. A call that several readers may know is offered to each in turn."""
    if name.startswith("load_table_from_"):
        yield from load_job(context, call, name)
    elif name in _READERS:
        yield from _READERS[name](context, call, name)
    elif is_operator(name):
        yield from operator_files(context, call, name)
    elif context.imports_any("dlt") and literal(keyword(call, "write_disposition")) == "append":
        table = target_name(context, keyword(call, "table_name", "name"))
        yield client_write(context, call, ClientWrite("append", "dlt", table, 'write_disposition="append"'))
    elif isinstance(call.func, ast.Attribute) and name in REMOVERS and call.args:
        yield from removed(context, call, name)
    elif any(
        fnmatch.fnmatch(context.module.dotted(call.func), sink) or name == sink for sink in context.settings.sinks
    ):
        table = target_name(context, argument(call, 0, "table", "path", "target"))
        yield client_write(context, call, ClientWrite("append", "sink", table, f"{name}()"))


def _documents(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    if isinstance(call.func, ast.Attribute):
        guards = document_guards(context, call)
        yield client_write(
            context, call, ClientWrite("append", "mongo", collection_of(context, call), f"{name}()", guards)
        )


def _copied(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """psycopg's copy_from, asyncpg's copy_records_to_table, awswrangler's redshift.copy."""
    if name == "copy":
        if "wrangler" in context.module.dotted(call.func) and literal(keyword(call, "mode")) in (None, "append"):
            table = target_name(context, argument(call, 3, "table"))
            yield client_write(context, call, ClientWrite("append", "redshift", table, "copy()"))
    elif name == "copy_records_to_table" or len(call.args) + len(call.keywords) > 1:
        node = argument(call, 1, "table") if name == "copy_from" else argument(call, 0, "table_name")
        yield client_write(
            context, call, ClientWrite("append", "postgres", target_name(context, node), f"{name}()", transaction="?")
        )


def _dynamic_frame(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    if "write_dynamic_frame" in context.module.dotted(call.func):
        yield from _glue(context, call, name)


def _search_index(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """Elasticsearch makes up an id for every document that brings none."""
    if not context.imports_any("elasticsearch", "opensearchpy"):
        return
    if name == "bulk" and not re.search(r"[\"']_id[\"']", context.module.text):
        yield client_write(context, call, ClientWrite("append", "elasticsearch", "", "helpers.bulk() without _id"))
    elif name == "index" and keyword(call, "id") is None and keyword(call, "body", "document") is not None:
        table = target_name(context, keyword(call, "index"))
        yield client_write(context, call, ClientWrite("append", "elasticsearch", table, "index()"))


def _table_append(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """pyiceberg's table.append(frame), known from a list's by what made the table."""
    if isinstance(call.func, ast.Attribute) and re.search(
        r"load_table|create_table", context.module.origin(call.func.value)
    ):
        yield client_write(context, call, ClientWrite("append", "iceberg", "", f"table.{name}()"))


def _dataset(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    if keyword(call, "existing_data_behavior", "basename_template") is None:
        table = target_name(context, argument(call, 1, "root_path"))
        yield client_write(context, call, ClientWrite("append", "pandas", table, f"{name}()"))


def _sheet(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    yield client_write(context, call, ClientWrite("append", "sheet", "", f"{name}()"))


def _exported(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """Exporters of schedulers (Mage and its like) take pandas' own word."""
    if literal(keyword(call, "if_exists")) == "append":
        table = target_name(context, call.args[-1] if call.args else keyword(call, "table_name", "table"))
        yield client_write(context, call, ClientWrite("append", "sink", table, f'{name}(if_exists="append")'))


def _insert_rows(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    guards: set[Guard] = set()
    if keyword(call, "row_ids") is not None or (name == "insert_rows_json" and "insertId" in context.module.text):
        guards.add("once_option")
    if literal(keyword(call, "replace")) is True:
        guards.add("conflict_clause")
    if skips_existing(context, argument(call, 1, "rows", "json_rows")):
        guards.add("anti_join")
    engine = (
        "bigquery" if name == "insert_rows_json" or context.imports_any("google.cloud") else context.database or "sql"
    )
    yield client_write(
        context,
        call,
        ClientWrite("append", engine, target_name(context, argument(call, 0, "table")), f"{name}()", guards),
    )


def _glue(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """Glue adds new files or rows; only a job bookmark keeps it from reading the same input again."""
    options = keyword(call, "connection_options")
    held = context.module.value(options) if isinstance(options, ast.Name) else options
    target = target_name(context, keyword(call, "table_name")) if keyword(call, "table_name") is not None else ""
    if isinstance(held, ast.Dict):
        for key, value in zip(held.keys, held.values, strict=False):
            if literal(key) in ("path", "dbtable"):
                target = target_name(context, value)
    guards: set[Guard] = (
        {"delete_before"}
        if "purge_s3_path" in context.module.text or "preactions" in context.module.source(call, 2000)
        else set()
    )
    yield client_write(context, call, ClientWrite("append", "glue", target, f"write_dynamic_frame.{name}()", guards))


def _write_pandas(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    target = target_name(context, argument(call, 2, "table_name"))
    if literal(keyword(call, "overwrite")) is True:
        yield client_write(context, call, ClientWrite("overwrite", "snowflake", target, "write_pandas(overwrite=True)"))
    else:
        yield client_write(context, call, ClientWrite("append", "snowflake", target, "write_pandas()"))


def _insert_call(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    """ClickHouse's client.insert(table, rows), Supabase's table(…).insert(rows)."""
    dotted = context.module.dotted(call.func)
    if context.imports_any("clickhouse_connect") and call.args:
        yield client_write(
            context, call, ClientWrite("append", "clickhouse", target_name(context, call.args[0]), f"{method(call)}()")
        )
    elif re.search(r"\.(table|from_)\(\)\.insert$", dotted) and context.imports_any("supabase"):
        yield client_write(context, call, ClientWrite("append", "supabase", "", "insert()"))


def _redshift(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    how = constant(context.module, keyword(call, "method")).upper()
    options = context.module.source(keyword(call, "copy_options") or call, 300).lower()
    target = target_name(context, keyword(call, "table"))
    if how in ("", "APPEND") and "truncate" not in options:
        yield client_write(context, call, ClientWrite("append", "redshift", target, f"{method(call)}(method=APPEND)"))


def _field_steps(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    if isinstance(call.func, ast.Attribute) and call.keywords:
        yield from field_steps(context, call)


_Reader = Callable[[ModuleContext, ast.Call, str], Iterator[WriteFact]]
_READERS: dict[str, _Reader] = {
    **dict.fromkeys(("insert_many", "insert_one"), _documents),
    **dict.fromkeys(("insert_rows_json", "insert_rows"), _insert_rows),
    **dict.fromkeys(("copy_from", "copy_records_to_table", "copy"), _copied),
    **dict.fromkeys(("from_options", "from_catalog", "from_jdbc_conf"), _dynamic_frame),
    **dict.fromkeys(("bulk", "index"), _search_index),
    **dict.fromkeys(("update_one", "update_many", "find_one_and_update", "update_item"), document_steps),
    **dict.fromkeys(("insert", "insert_df"), _insert_call),
    **dict.fromkeys(("append_row", "append_rows"), _sheet),
    **dict.fromkeys(("S3ToRedshiftOperator", "S3ToRedshiftTransfer"), _redshift),
    **dict.fromkeys(sorted(ORM_METHODS), orm_insert),
    **dict.fromkeys(("export", "insert_dataframe", "write_table"), _exported),
    **dict.fromkeys(sorted(FILE_WRITERS), file_write),
    "append": _table_append,
    "write_to_dataset": _dataset,
    "update": _field_steps,
    "write_pandas": _write_pandas,
    "open": opened_to_append,
    "execute": executed_statement,
}
