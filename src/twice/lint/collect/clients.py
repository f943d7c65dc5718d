"""Rows added through database clients, hooks, operators, ORMs and files opened for appending."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterator

from twice.lint.collect.asks import looks_first
from twice.lint.collect.scene import Scene, is_operator
from twice.lint.facts import Guard, Verb, WriteFact
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method
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
    elif name == "bulk" and scene.imports_any("elasticsearch", "opensearchpy") and "_id" not in scene.module.text:
        yield _write(scene, call, "append", "elasticsearch", "", "helpers.bulk() without _id")
    elif name == "append" and re.search(
        r"load_table|create_table", scene.module.origin(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    ):
        yield _write(scene, call, "append", "iceberg", "", "table.append()")
    elif name == "write_pandas":
        yield from _write_pandas(scene, call)
    elif name == "open" and isinstance(call.func, ast.Name):
        yield from _open(scene, call)
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
    elif name == "execute" and call.args and isinstance(call.args[0], ast.Call):
        yield from _core_insert(scene, call, call.args[0])
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


def _open(scene: Scene, call: ast.Call) -> Iterator[WriteFact]:
    mode = constant(scene.module, argument(call, 1, "mode"))
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


def _core_insert(scene: Scene, call: ast.Call, statement: ast.Call) -> Iterator[WriteFact]:
    """``conn.execute(table.insert(), rows)`` and ``execute(insert(Table).values(…))``."""
    words: list[str] = []
    current: ast.expr = statement
    target = ""
    while isinstance(current, ast.Call):
        words.append(method(current))
        if method(current) == "insert":
            if isinstance(current.func, ast.Attribute):
                target = scene.module.source(current.func.value)
            elif current.args:
                target = scene.module.source(current.args[0])
        current = current.func.value if isinstance(current.func, ast.Attribute) else ast.Name("x")
    if "insert" not in words or any(
        word.startswith(("on_conflict", "on_duplicate", "prefix_with", "from_select")) for word in words
    ):
        return
    yield _write(scene, call, "append", "sql", target.lower(), "insert()", transaction="?")


__all__ = ["collect_clients", "is_operator"]
