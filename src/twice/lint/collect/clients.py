"""Rows added through database clients, hooks, operators, ORMs and files opened for appending."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterator
from dataclasses import replace

from twice.lint.collect.asks import looks_first
from twice.lint.collect.scene import Scene, is_operator
from twice.lint.facts import Guard, Verb, WriteFact
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method
from twice.lint.statements.mask import mask, shown
from twice.lint.vocabulary import is_log, is_temporary, names_the_run

_TABLES = (
    "destination_project_dataset_table",
    "destination_dataset_table",
    "destination",
    "table",
    "table_id",
    "destinationTable",
    "to_table",
)
_WEB = (
    "flask",
    "fastapi",
    "django",
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


def collect_clients(scene: Scene) -> None:
    for call in scene.module.calls:
        name = method(call)
        for fact in _facts(scene, call, name):
            scene.gathering.add(fact)
    for fact in _dispositions(scene):
        scene.gathering.add(fact)


def _facts(scene: Scene, call: ast.Call, name: str) -> Iterator[WriteFact]:
    if name in ("insert_many", "insert_one") and isinstance(call.func, ast.Attribute):
        yield _write(
            scene, call, "append", "mongo", _collection(scene, call), f"{name}()", _document_guards(scene, call)
        )
    elif name in ("insert_rows_json", "insert_rows") and isinstance(call.func, ast.Attribute):
        yield from _insert_rows(scene, call, name)
    elif name.startswith("load_table_from_"):
        yield from _load_job(scene, call, name)
    elif name == "copy_from" and isinstance(call.func, ast.Attribute) and len(call.args) + len(call.keywords) > 1:
        yield _write(
            scene, call, "append", "postgres", _name(scene, argument(call, 1, "table")), "copy_from()", transaction="?"
        )
    elif name in ("from_options", "from_catalog", "from_jdbc_conf") and "write_dynamic_frame" in scene.module.dotted(
        call.func
    ):
        yield from _glue(scene, call, name)
    elif (
        name == "bulk"
        and scene.imports_any("elasticsearch", "opensearchpy")
        and not re.search(r"[\"']_id[\"']", scene.module.text)
    ):
        yield _write(scene, call, "append", "elasticsearch", "", "helpers.bulk() without _id")
    elif name == "append" and re.search(
        r"load_table|create_table", scene.module.origin(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    ):
        yield _write(scene, call, "append", "iceberg", "", "table.append()")
    elif name == "write_pandas":
        yield from _write_pandas(scene, call)
    elif name == "open":
        yield from _open(scene, call)
    elif name in ("update_one", "update_many", "find_one_and_update", "update_item"):
        yield from _steps(scene, call, name)
    elif name in ("insert", "insert_df") and isinstance(call.func, ast.Attribute):
        yield from _insert_call(scene, call)
    elif name in _FILES and isinstance(call.func, ast.Attribute):
        yield from _file(scene, call, name)
    elif is_operator(name):
        yield from _operator_files(scene, call, name)
    elif name in ("append_row", "append_rows"):
        yield _write(scene, call, "append", "sheet", "", f"{name}()")
    elif name in ("S3ToRedshiftOperator", "S3ToRedshiftTransfer", "RedshiftToS3"):
        yield from _redshift(scene, call)
    elif name in _ORM and isinstance(call.func, ast.Attribute):
        yield from _orm(scene, call, name)
    elif (
        name == "index"
        and isinstance(call.func, ast.Attribute)
        and keyword(call, "index") is not None
        and keyword(call, "id") is None
    ):
        if scene.imports_any("elasticsearch", "opensearchpy") and (keyword(call, "body", "document") is not None):
            yield _write(scene, call, "append", "elasticsearch", _name(scene, keyword(call, "index")), "index()")
    elif name == "execute" and call.args and (statements := _statements(scene, call.args[0])):
        yield from _core_insert(scene, call, statements)
    elif any(fnmatch.fnmatch(scene.module.dotted(call.func), sink) or name == sink for sink in scene.settings.sinks):
        yield _write(
            scene, call, "append", "sink", _name(scene, argument(call, 0, "table", "path", "target")), f"{name}()"
        )


def _write(
    scene: Scene, at: ast.AST, verb: Verb, engine: str, target: str, words: str, guards: set[Guard] | None = None, transaction: str = ""
) -> WriteFact:  # fmt: skip
    all_guards: set[Guard] = set(guards or ())
    if is_temporary(target):
        all_guards.add("temporary")
    if names_the_run(target):
        all_guards.add("run_path")
    if is_log(target):
        all_guards.add("log")
    if looks_first(scene, at):
        all_guards.add("looked_first")
    return WriteFact(scene.place(at, transaction=transaction), verb, engine, target, words, frozenset(all_guards))


def _name(scene: Scene, node: ast.AST | None) -> str:
    if node is None:
        return ""
    text = constant(scene.module, node).strip().lower()
    return text or "{" + re.sub(r"[{}]", "", scene.module.source(node, 40)).lower() + "}"


def _collection(scene: Scene, call: ast.Call) -> str:
    return scene.module.source(call.func.value, 60).lower() if isinstance(call.func, ast.Attribute) else ""


def _document_guards(scene: Scene, call: ast.Call) -> set[Guard]:
    """A document that brings its own _id is refused the second time; a unique index does the same."""
    text = scene.module.source(call, 2000) + " ".join(scene.module.source(value, 800) for value in _values(scene, call))
    guards: set[Guard] = set()
    if "'_id'" in text or "create_index" in scene.module.text and "unique=True" in scene.module.text:
        guards.add("conflict_clause")
    return guards


def _values(scene: Scene, call: ast.Call) -> Iterator[ast.expr]:
    for item in call.args:
        value = scene.module.value(item) if isinstance(item, ast.Name) else None
        if value is not None:
            yield value


def _insert_rows(scene: Scene, call: ast.Call, name: str) -> Iterator[WriteFact]:
    guards: set[Guard] = set()
    if keyword(call, "row_ids") is not None or name == "insert_rows_json" and "insertId" in scene.module.text:
        guards.add("once_option")
    if literal(keyword(call, "replace")) is True:
        guards.add("conflict_clause")
    engine = "bigquery" if name == "insert_rows_json" or scene.imports_any("google.cloud") else scene.database or "sql"
    yield _write(scene, call, "append", engine, _name(scene, argument(call, 0, "table")), f"{name}()", guards)


def _load_job(scene: Scene, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """A BigQuery load appends unless its configuration says otherwise."""
    config = keyword(call, "job_config")
    target = _name(scene, argument(call, 1, "destination"))
    if config is not None:
        if isinstance(config, ast.Name):
            values = scene.module.values.get((scene.module.unit(config), f"{config.id}.write_disposition"), [])
            made = scene.module.value(config)
            if values or (isinstance(made, ast.Call) and keyword(made, "write_disposition") is not None):
                return
            if (
                made is None
                or not isinstance(made, ast.Call)
                or made.args
                or any(item.arg is None for item in made.keywords)
            ):
                return  # made elsewhere
        elif isinstance(config, ast.Call):
            if keyword(config, "write_disposition") is not None or not method(config).endswith("Config"):
                return
        else:
            return
    guards: set[Guard] = {"partition_decorator"} if "$" in target else set()
    yield _write(scene, call, "append", "bigquery", target, f"{name}() (appends by default)", guards)


def _dispositions(scene: Scene) -> Iterator[WriteFact]:
    """WRITE_APPEND, wherever it is given: keyword, attribute or configuration dictionary."""
    for node in scene.module.nodes:
        word = (
            node.attr if isinstance(node, ast.Attribute) else literal(node) if isinstance(node, ast.Constant) else None
        )
        if word not in ("WRITE_APPEND", "WRITE_TRUNCATE"):
            continue
        holder = _holder(scene, node)
        if holder is None:
            continue
        target = _destination(scene, holder)
        guards: set[Guard] = {"partition_decorator"} if "$" in target else set()
        verb: Verb = "append" if word == "WRITE_APPEND" else "overwrite"
        if verb == "overwrite" and not target:
            continue
        yield _write(scene, node, verb, "bigquery", target, str(word), guards)


def _holder(scene: Scene, node: ast.AST) -> ast.AST | None:
    """The call, dictionary or assignment that takes the disposition; None when it is only compared or a default."""
    for parent in scene.module.ancestors(node):
        if isinstance(parent, (ast.Call, ast.Dict)):
            return parent
        if isinstance(parent, ast.Assign):
            return parent
        if isinstance(parent, (ast.Compare, ast.arguments)):
            return None
        if isinstance(parent, ast.IfExp):
            continue
        if isinstance(parent, ast.stmt):
            return None
    return None


def _destination(scene: Scene, holder: ast.AST) -> str:
    calls = [holder] if isinstance(holder, ast.Call) else []
    calls += [parent for parent in scene.module.ancestors(holder) if isinstance(parent, ast.Call)]
    for call in calls:
        for item in call.keywords:
            if item.arg in _TABLES:
                found = constant(scene.module, item.value).lower()
                if found:
                    return found
    unit = scene.module.unit(holder)
    for call in scene.module.calls:
        if method(call).startswith(("load_table_from", "query")) and scene.module.unit(call) == unit:
            return _name(scene, argument(call, 1, "destination"))
    return ""


def _glue(scene: Scene, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """Glue adds new files or rows; only a job bookmark keeps it from reading the same input again."""
    options = keyword(call, "connection_options")
    held = scene.module.value(options) if isinstance(options, ast.Name) else options
    target = _name(scene, keyword(call, "table_name")) if keyword(call, "table_name") is not None else ""
    if isinstance(held, ast.Dict):
        for key, value in zip(held.keys, held.values, strict=False):
            if literal(key) in ("path", "dbtable"):
                target = _name(scene, value)
    guards: set[Guard] = (
        {"delete_before"}
        if "purge_s3_path" in scene.module.text or "preactions" in scene.module.source(call, 2000)
        else set()
    )
    yield _write(scene, call, "append", "glue", target, f"write_dynamic_frame.{name}()", guards)


def _write_pandas(scene: Scene, call: ast.Call) -> Iterator[WriteFact]:
    target = _name(scene, argument(call, 2, "table_name"))
    if literal(keyword(call, "overwrite")) is True:
        yield _write(scene, call, "overwrite", "snowflake", target, "write_pandas(overwrite=True)")
    else:
        yield _write(scene, call, "append", "snowflake", target, "write_pandas()")


_FILES = {
    "to_parquet", "to_csv", "to_json", "to_excel", "to_pickle", "to_feather", "put_object", "upload_file", "upload_fileobj",
    "upload_from_string", "upload_from_filename", "load_file", "load_string", "load_bytes", "write_parquet", "write_csv", "upload_blob",
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
_STEPS = re.compile(r"\$(inc|push|mul|addToSet)\b|\bADD\s+\w+\s+:|SET\s+(\w+)\s*=\s*\2\s*[-+]", re.I)


def _steps(scene: Scene, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """Mongo's $inc and $push, DynamoDB's ADD: the new value comes from the old one."""
    text = scene.module.source(call, 3000)
    found = _STEPS.search(text)
    if found and "addToSet" not in found[0]:
        column = re.search(r"\$(?:inc|push|mul)'?\"?:\s*\{['\"](\w+)", text)
        fact = _write(scene, call, "update", "mongo", _collection(scene, call), f"{name}()")
        yield replace(fact, increments=(column[1] if column else "value",))


def _insert_call(scene: Scene, call: ast.Call) -> Iterator[WriteFact]:
    """ClickHouse's client.insert(table, rows), Supabase's table(…).insert(rows)."""
    dotted = scene.module.dotted(call.func)
    if scene.imports_any("clickhouse_connect") and call.args:
        yield _write(scene, call, "append", "clickhouse", _name(scene, call.args[0]), f"{method(call)}()")
    elif re.search(r"\.(table|from_)\(\)\.insert$", dotted) and scene.imports_any("supabase"):
        yield _write(scene, call, "append", "supabase", "", "insert()")


def _file(scene: Scene, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """A file or object written whole: a second run replaces it."""
    if keyword(call, "mode", "partition_cols", "dataset") is not None:
        return  # read by the collector of frames
    given = keyword(call, "Key", "key", "path", "path_or_buf")
    texts = [constant(scene.module, value).lower() for value in ([given] if given is not None else call.args[:3])]
    target = next((text for text in texts if "/" in text or "." in text), "")
    if target:
        yield _write(scene, call, "overwrite", "file", target, f"{name}()")


def _operator_files(scene: Scene, call: ast.Call, name: str) -> Iterator[WriteFact]:
    for item in call.keywords:
        text = constant(scene.module, item.value).lower() if item.arg in _DESTINATIONS else ""
        if "{{" in text:
            yield _write(scene, item.value, "overwrite", "file", shown(mask(text)), f"{name}()")


def _open(scene: Scene, call: ast.Call) -> Iterator[WriteFact]:
    attribute = isinstance(call.func, ast.Attribute)
    mode = constant(scene.module, argument(call, 0 if attribute and len(call.args) < 2 else 1, "mode"))
    if attribute and mode not in ("a", "at", "ab"):
        return
    if not mode.startswith("a"):
        return
    path = _name(scene, argument(call, 0, "file"))
    if _LOG_FILE.search(path) or re.search(r"\.(log|txt|md|out)$", path):
        return
    yield _write(scene, call, "append", "file", path, f'open(…, "{mode}")')


def _redshift(scene: Scene, call: ast.Call) -> Iterator[WriteFact]:
    how = constant(scene.module, keyword(call, "method")).upper()
    options = scene.module.source(keyword(call, "copy_options") or call, 300).lower()
    target = _name(scene, keyword(call, "table"))
    if how in ("", "APPEND") and "truncate" not in options:
        yield _write(scene, call, "append", "redshift", target, f"{method(call)}(method=APPEND)")


def _orm(scene: Scene, call: ast.Call, name: str) -> Iterator[WriteFact]:
    receiver = scene.module.source(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
    is_session = re.search(r"session|\bdb$", receiver) or (name == "bulk_create" and "objects" in receiver)
    if (
        not is_session
        or scene.imports_any(*_WEB)
        or not (scene.imports_any("sqlalchemy", "django") or "session" in receiver)
    ):
        return
    guards: set[Guard] = set()
    if literal(keyword(call, "ignore_conflicts")) is True or literal(keyword(call, "update_conflicts")) is True:
        guards.add("conflict_clause")
    yield _write(scene, call, "append", "orm", "", f"{name}()", guards, transaction="?")


def _statements(scene: Scene, value: ast.expr) -> list[ast.Call]:
    """The calls that built a SQLAlchemy statement, also through a variable that is extended step by step."""
    if isinstance(value, ast.Call):
        return [value]
    if isinstance(value, ast.Name):
        made = scene.module.values.get((scene.module.unit(value), value.id), [])
        return [item for item in made if isinstance(item, ast.Call)]
    return []


def _core_insert(scene: Scene, call: ast.Call, statements: list[ast.Call]) -> Iterator[WriteFact]:
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
                target = scene.module.source(holder)
            current = current.func.value if isinstance(current.func, ast.Attribute) else ast.Name("x")
    keyed = any(word.startswith(("on_conflict", "on_duplicate", "prefix_with", "from_select")) for word in words)
    if "insert" in words and not keyed:
        yield _write(scene, call, "append", "sql", target.lower(), "insert()", transaction="?")


__all__ = ["collect_clients", "is_operator"]
