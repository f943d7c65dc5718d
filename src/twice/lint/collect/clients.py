"""Rows added through database clients, hooks, operators, ORMs and files opened for appending."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from twice.lint.collect.bigquery import dispositions, load_job
from twice.lint.collect.client_writes import client_write, target_name
from twice.lint.collect.documents import collection_of, document_guards, document_steps, field_steps
from twice.lint.collect.module_context import ModuleContext, is_operator
from twice.lint.collect.skip_existing import leaves_out
from twice.lint.facts import Guard, WriteFact
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method
from twice.lint.statements.mask import mask, shown

_WEB = (
    "flask",
    "fastapi",
    "starlette",
    "sanic",
    "aiohttp.web",
    "tornado",
    "streamlit",
    "telegram",
    "discord",
)
_ORM = {"add", "add_all", "bulk_save_objects", "bulk_insert_mappings", "bulk_create"}
_LOG_FILE = re.compile(r"log|history|debug|error|trace|report|output\.txt|stdout|audit", re.I)

_REMOVES = {
    "rmtree": re.compile(r"rmtree$"),
    "rm": re.compile(r"\bfs\.rm$"),
    "delete_objects": re.compile(r"\bs3\.delete_objects$"),
    "purge_s3_path": re.compile(r"purge_s3_path$"),
    "delete": re.compile(r"\bfs\.delete$"),
}
"""Calls that empty a path, by name; written behind them, rows are alone there."""


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
        yield from _operator_files(context, call, name)
    elif context.imports_any("dlt") and literal(keyword(call, "write_disposition")) == "append":
        table = target_name(context, keyword(call, "table_name", "name"))
        yield client_write(context, call, "append", "dlt", table, 'write_disposition="append"')
    elif isinstance(call.func, ast.Attribute) and name in _REMOVES and call.args:
        if _REMOVES[name].search(context.module.dotted(call.func)):
            yield client_write(context, call, "drop", "file", target_name(context, call.args[0]), f"{name}()")
    elif any(
        fnmatch.fnmatch(context.module.dotted(call.func), sink) or name == sink for sink in context.settings.sinks
    ):
        table = target_name(context, argument(call, 0, "table", "path", "target"))
        yield client_write(context, call, "append", "sink", table, f"{name}()")


def _documents(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    if isinstance(call.func, ast.Attribute):
        guards = document_guards(context, call)
        yield client_write(context, call, "append", "mongo", collection_of(context, call), f"{name}()", guards)


def _copied(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """psycopg's copy_from, asyncpg's copy_records_to_table, awswrangler's redshift.copy."""
    if name == "copy":
        if "wrangler" in context.module.dotted(call.func) and literal(keyword(call, "mode")) in (None, "append"):
            table = target_name(context, argument(call, 3, "table"))
            yield client_write(context, call, "append", "redshift", table, "copy()")
    elif name == "copy_records_to_table" or len(call.args) + len(call.keywords) > 1:
        node = argument(call, 1, "table") if name == "copy_from" else argument(call, 0, "table_name")
        yield client_write(
            context, call, "append", "postgres", target_name(context, node), f"{name}()", transaction="?"
        )


def _dynamic_frame(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    if "write_dynamic_frame" in context.module.dotted(call.func):
        yield from _glue(context, call, name)


def _search_index(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """Elasticsearch makes up an id for every document that brings none."""
    if not context.imports_any("elasticsearch", "opensearchpy"):
        return
    if name == "bulk" and not re.search(r"[\"']_id[\"']", context.module.text):
        yield client_write(context, call, "append", "elasticsearch", "", "helpers.bulk() without _id")
    elif name == "index" and keyword(call, "id") is None and keyword(call, "body", "document") is not None:
        table = target_name(context, keyword(call, "index"))
        yield client_write(context, call, "append", "elasticsearch", table, "index()")


def _table_append(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """pyiceberg's table.append(frame), told from a list's by what made the table."""
    if isinstance(call.func, ast.Attribute) and re.search(
        r"load_table|create_table", context.module.origin(call.func.value)
    ):
        yield client_write(context, call, "append", "iceberg", "", f"table.{name}()")


def _dataset(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    if keyword(call, "existing_data_behavior", "basename_template") is None:
        table = target_name(context, argument(call, 1, "root_path"))
        yield client_write(context, call, "append", "pandas", table, f"{name}()")


def _sheet(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    yield client_write(context, call, "append", "sheet", "", f"{name}()")


def _exported(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """Exporters of schedulers (Mage and its like) take pandas' own word."""
    if literal(keyword(call, "if_exists")) == "append":
        table = target_name(context, call.args[-1] if call.args else keyword(call, "table_name", "table"))
        yield client_write(context, call, "append", "sink", table, f'{name}(if_exists="append")')


def _executed(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    statements = _statements(context, call.args[0]) if call.args else []
    if statements:
        yield from _core_insert(context, call, statements)


def _insert_rows(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    guards: set[Guard] = set()
    if keyword(call, "row_ids") is not None or (name == "insert_rows_json" and "insertId" in context.module.text):
        guards.add("once_option")
    if literal(keyword(call, "replace")) is True:
        guards.add("conflict_clause")
    if leaves_out(context, argument(call, 1, "rows", "json_rows")):
        guards.add("anti_join")
    engine = (
        "bigquery" if name == "insert_rows_json" or context.imports_any("google.cloud") else context.database or "sql"
    )
    yield client_write(
        context, call, "append", engine, target_name(context, argument(call, 0, "table")), f"{name}()", guards
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
    yield client_write(context, call, "append", "glue", target, f"write_dynamic_frame.{name}()", guards)


def _write_pandas(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    target = target_name(context, argument(call, 2, "table_name"))
    if literal(keyword(call, "overwrite")) is True:
        yield client_write(context, call, "overwrite", "snowflake", target, "write_pandas(overwrite=True)")
    else:
        yield client_write(context, call, "append", "snowflake", target, "write_pandas()")


_FILES = {
    "to_parquet", "to_csv", "to_json", "to_excel", "to_pickle", "to_feather", "put_object", "upload_file",
    "upload_fileobj",
    "upload_from_string", "upload_from_filename", "load_file", "load_string", "load_bytes", "write_parquet",
    "write_csv", "upload_blob",
}  # fmt: skip
_DESTINATIONS = (
    "s3_key",
    "dest_key",
    "key",
    "filename",
    "object_name",
    "destination_object",
    "output_path",
    "destination_path",
    "dst",
)


def _insert_call(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    """ClickHouse's client.insert(table, rows), Supabase's table(…).insert(rows)."""
    dotted = context.module.dotted(call.func)
    if context.imports_any("clickhouse_connect") and call.args:
        yield client_write(
            context, call, "append", "clickhouse", target_name(context, call.args[0]), f"{method(call)}()"
        )
    elif re.search(r"\.(table|from_)\(\)\.insert$", dotted) and context.imports_any("supabase"):
        yield client_write(context, call, "append", "supabase", "", "insert()")


def _file(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """A file or object written whole: a second run replaces it."""
    if keyword(call, "mode", "partition_cols", "dataset") is not None:
        return  # read by the collector of frames
    given = keyword(call, "Key", "key", "path", "path_or_buf")
    texts = [constant(context.module, value).lower() for value in ([given] if given is not None else call.args[:3])]
    target = next((text for text in texts if "/" in text or "." in text), "")
    path = given if given is not None else call.args[0] if call.args else None
    if not target and isinstance(path, (ast.Name, ast.Attribute)):
        target = target_name(context, path)
    if target:
        fact = client_write(context, call, "overwrite", "file", target, f"{name}()")
        yield replace(fact, reads=(target,)) if _reads_itself(context, call, path) else fact


def _reads_itself(context: ModuleContext, call: ast.Call, path: ast.expr | None) -> bool:
    """The same function reads the file, extends what it read, and writes it back."""
    if path is None or not name_starts(call, "to_"):
        return False
    unit, words = context.module.unit(call), context.module.source(path)
    own = [other for other in context.module.calls if context.module.unit(other) == unit and other.lineno < call.lineno]
    reads = any(
        method(other).startswith("read_") and other.args and context.module.source(other.args[0]) == words
        for other in own
    )
    return reads and any(method(other) in ("concat", "append") for other in own)


def name_starts(call: ast.Call, prefix: str) -> bool:
    return method(call).startswith(prefix)


def _operator_files(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    for item in call.keywords:
        text = constant(context.module, item.value).lower() if item.arg in _DESTINATIONS else ""
        if "{{" in text:
            yield client_write(context, item.value, "overwrite", "file", shown(mask(text)), f"{name}()")


def _open(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    attribute = isinstance(call.func, ast.Attribute)
    mode = constant(context.module, argument(call, 0 if attribute and len(call.args) < 2 else 1, "mode"))
    if attribute and mode not in ("a", "at", "ab"):
        return
    if not mode.startswith("a"):
        return
    path = target_name(context, argument(call, 0, "file"))
    if _LOG_FILE.search(path) or re.search(r"\.(log|txt|md|out)$", path):
        return
    yield client_write(context, call, "append", "file", path, f'open(…, "{mode}")')


def _redshift(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    how = constant(context.module, keyword(call, "method")).upper()
    options = context.module.source(keyword(call, "copy_options") or call, 300).lower()
    target = target_name(context, keyword(call, "table"))
    if how in ("", "APPEND") and "truncate" not in options:
        yield client_write(context, call, "append", "redshift", target, f"{method(call)}(method=APPEND)")


def _orm(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    receiver = context.module.source(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
    is_session = re.search(r"session|\bdb$", receiver) or (name == "bulk_create" and "objects" in receiver)
    if (
        not is_session
        or context.imports_any(*_WEB)
        or not (context.imports_any("sqlalchemy", "django") or "session" in receiver)
    ):
        return
    guards: set[Guard] = set()
    if literal(keyword(call, "ignore_conflicts")) is True or literal(keyword(call, "update_conflicts")) is True:
        guards.add("conflict_clause")
    yield client_write(context, call, "append", "orm", "", f"{name}()", guards, transaction="?")


def _statements(context: ModuleContext, value: ast.expr) -> list[ast.Call]:
    """The calls that built a SQLAlchemy statement, also through a variable that is extended step by step."""
    if isinstance(value, ast.Call):
        return [value]
    if isinstance(value, ast.Name):
        made = context.module.values.get((context.module.unit(value), value.id), [])
        return [item for item in made if isinstance(item, ast.Call)]
    return []


def _core_insert(context: ModuleContext, call: ast.Call, statements: list[ast.Call]) -> Iterator[WriteFact]:
    """``conn.execute(table.insert(), rows)`` and ``execute(insert(Table).values(…))``."""
    words: list[str] = []
    target = ""
    for statement in statements:
        current: ast.expr = statement
        while isinstance(current, ast.Call):
            words.append(method(current))
            if method(current) == "insert":
                holder = (
                    current.func.value
                    if isinstance(current.func, ast.Attribute)
                    else (current.args or [current.func])[0]
                )
                target = context.module.source(holder)
            current = current.func.value if isinstance(current.func, ast.Attribute) else ast.Name("x")
    keyed = any(word.startswith(("on_conflict", "on_duplicate", "prefix_with", "from_select")) for word in words)
    if "insert" in words and not keyed:
        yield client_write(context, call, "append", "sql", target.lower(), "insert()", transaction="?")


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
    **dict.fromkeys(sorted(_ORM), _orm),
    **dict.fromkeys(("export", "insert_dataframe", "write_table"), _exported),
    **dict.fromkeys(sorted(_FILES), _file),
    "append": _table_append,
    "write_to_dataset": _dataset,
    "update": _field_steps,
    "write_pandas": _write_pandas,
    "open": _open,
    "execute": _executed,
}
