"""Writes and reads of data frames: Spark, pandas, polars, awswrangler, Delta."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from twice.lint.collect.asks import looks_first
from twice.lint.collect.scene import Scene
from twice.lint.facts import Guard, MergeShape, ReadFact, Verb, WriteFact
from twice.lint.resolve.chains import Chain, is_outermost, unroll
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method
from twice.lint.vocabulary import is_date_argument, is_log, is_temporary, names_the_run

_ENDS = {
    "save",
    "saveAsTable",
    "insertInto",
    "parquet",
    "csv",
    "json",
    "orc",
    "jdbc",
    "text",
    "avro",
    "delta",
    "mongo",
    "save_as_table",
}
_NAMES_TABLE = {"saveAsTable", "insertInto"}
_STORES = re.compile(
    r"cassandra|hbase|hudi|kudu|phoenix|redis|dynamodb|elasticsearch|org\.apache\.spark\.sql\.cassandra|cosmos", re.I
)
_DATE = re.compile(r"date|day|_dt|^dt|ds$|^ds|hour|month|year|time|_ts|partition|week", re.I)


def collect_frames(scene: Scene) -> None:
    _confs(scene)
    for call in scene.module.calls:
        name = method(call)
        if not isinstance(call.func, ast.Attribute):
            continue
        if name in _ENDS:
            chain = unroll(scene.module, call)
            if chain.has("write"):
                _spark_write(scene, call, chain, name)
            elif chain.has("read", "readStream"):
                _spark_read(scene, call, name)
        elif name in ("append", "overwritePartitions", "createOrReplace", "overwrite") and unroll(
            scene.module, call
        ).has("writeTo"):
            _write_to(scene, call, name)
        elif name == "table" and unroll(scene.module, call).root is not None:
            _spark_read(scene, call, name)
        elif name == "to_sql" or name == "to_gbq":
            _to_sql(scene, call, name)
        elif name == "merge" and is_delta_merge(scene, call):
            _delta_merge(scene, call)
        elif name in (
            "to_parquet",
            "to_csv",
            "to_json",
            "write_database",
            "write_table",
            "write_deltalake",
            "write_delta",
        ):
            _file_write(scene, call, name)


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


def _spark_write(scene: Scene, call: ast.Call, chain: Chain, end: str) -> None:
    module = scene.module
    mode = _mode(scene, call, chain, end)
    given = _mode_node(call, chain, end)
    if isinstance(given, ast.Name) and (calls := _callers(scene, given)) is not None:
        _written_by_callers(scene, call, chain, end, given, calls)
        return
    target = _target(scene, call, chain, end)
    options = _options(scene, chain)
    form = (
        constant(module, next(iter(chain.calls("format")), ast.Call(ast.Name("x"), [], [])).args[0])
        if any(True for _ in chain.calls("format"))
        else end
    )
    form = form or end
    guards: set[Guard] = set(_target_guards(target))
    if _STORES.search(form) or any(_STORES.search(key) for key in options):
        hudi_insert = "insert" in options.get("hoodie.datasource.write.operation", "") and "upsert" not in options.get(
            "hoodie.datasource.write.operation", ""
        )
        if not hudi_insert:
            guards.add("upsert_store")
    if "mongo" in form and "replace" in options.get("operationtype", options.get("replacedocument", "")):
        guards.add("upsert_store")
    if "txnappid" in options and "txnversion" in options:
        guards.add("once_option")
    if "replacewhere" in options or chain.has("replaceWhere"):
        guards.add("replace_where")
    if options.get("partitionoverwritemode") == "dynamic":
        guards.add("dynamic_overwrite")
    if looks_first(scene, call):
        guards.add("looked_first")
    if _is_anti_joined(scene, call, chain):
        guards.add("anti_join")
    if re.search(r"error|reject|quarantin|dead_?letter|bad_?record|audit|metric|_log", target, re.I):
        guards.add("log")
    verb: Verb
    if mode == "append" or (end == "insertInto" and mode != "overwrite"):
        verb = "append"
    elif mode == "overwrite":
        verb = "overwrite"
    elif mode.startswith("{"):
        return
    else:
        return  # the default fails when the target exists: nothing is doubled
    partitions = tuple(
        str(literal(value)) if isinstance(literal(value), str) else module.source(value, 30)
        for part in chain.calls("partitionBy")
        for value in _flat(part.args)
    )
    node = next((part for part in chain.calls("mode")), None)
    at = (
        node.args[0]
        if node is not None and node.args and node.lineno >= call.lineno and _same_chain(module, node, call)
        else call
    )
    scene.gathering.add(
        WriteFact(
            scene.place(at, transaction=""), verb, "kafka" if form == "kafka" else "spark", target, f'.write.mode("{mode or "append"}").{end}()',
            frozenset(guards), partition_by=partitions, sliced=is_sliced(scene, call, chain), reads=_sources(scene, chain),
        )
    )  # fmt: skip


def _same_chain(module: object, node: ast.Call, call: ast.Call) -> bool:
    return any(part is node for part in ast.walk(call))


def _flat(values: list[ast.expr]) -> list[ast.expr]:
    flat: list[ast.expr] = []
    for value in values:
        flat.extend(value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value])
    return flat


def _mode(scene: Scene, call: ast.Call, chain: Chain, end: str) -> str:
    if end == "insertInto":
        overwrite = argument(call, 1, "overwrite")
        if literal(overwrite) is True:
            return "overwrite"
    given = _mode_node(call, chain, end)
    text = constant(scene.module, given).lower() if given is not None else ""
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


def _callers(scene: Scene, name: ast.Name) -> list[ast.Call] | None:
    """The calls in this module of the function whose parameter the name is; None when it is no parameter."""
    function = scene.module.owner(name)
    if function is None or name.id not in {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}:
        return None
    if scene.module.values.get((function.name, name.id)):
        return None
    return [call for call in scene.module.calls if method(call) == function.name]


def given_to(scene: Scene, call: ast.Call, name: ast.Name) -> ast.expr | None:
    """What one call gives to the parameter `name` of the function `name` stands in, or the default."""
    function = scene.module.owner(name)
    if function is None:
        return None
    names = [a.arg for a in function.args.args]
    offset = 1 if names[:1] == ["self"] and isinstance(call.func, ast.Attribute) else 0
    given = keyword(call, name.id)
    if given is None and name.id in names and names.index(name.id) - offset < len(call.args):
        given = call.args[names.index(name.id) - offset]
    return given if given is not None else scene.module.value(name)


def _written_by_callers(
    scene: Scene, write: ast.Call, chain: Chain, end: str, mode: ast.Name, calls: list[ast.Call]
) -> None:
    """A helper with a mode parameter: what it does is decided where it is called."""
    target_node = argument(write, 1 if end == "jdbc" else 0, "path", "name", "tableName", "table")
    for call in calls:
        if constant(scene.module, given_to(scene, call, mode)).lower() != "append":
            continue
        named = given_to(scene, call, target_node) if isinstance(target_node, ast.Name) else target_node
        target = constant(scene.module, named).lower() if named is not None else ""
        guards = set(_target_guards(target))
        scene.gathering.add(
            WriteFact(
                scene.place(call, transaction=""),
                "append",
                "spark",
                target,
                f'{method(call)}(mode="append")',
                frozenset(guards),
            )
        )
    if not calls and constant(scene.module, mode).lower() == "append":
        place = scene.place(write, transaction="")
        place = replace(place, within=place.within | {"parameter"})
        scene.gathering.add(
            WriteFact(place, "append", "spark", _target(scene, write, chain, end), '.write.mode("append" by default)')
        )


def _target(scene: Scene, call: ast.Call, chain: Chain, end: str) -> str:
    if end == "jdbc":
        value = argument(call, 1, "table")
    else:
        value = argument(call, 0, "path", "name", "tableName")
    options = _options(scene, chain)
    text = constant(scene.module, value) if value is not None else ""
    if not text and value is not None:
        text = "{" + scene.module.source(value, 40).replace("{", "").replace("}", "") + "}"
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


def _options(scene: Scene, chain: Chain) -> dict[str, str]:
    options: dict[str, str] = {}
    for call in chain.calls("option"):
        if len(call.args) > 1:
            key = constant(scene.module, call.args[0]).lower()
            options[key] = constant(scene.module, call.args[1]).lower() or scene.module.source(call.args[1], 40).lower()
    for call in chain.calls("options"):
        for item in call.keywords:
            held = (
                scene.module.value(item.value)
                if item.arg is None and isinstance(item.value, (ast.Name, ast.Attribute))
                else item.value
            )
            if item.arg is not None:
                options[item.arg.lower()] = constant(scene.module, item.value).lower()
            elif isinstance(held, ast.Dict):
                for key, value in zip(held.keys, held.values, strict=False):
                    options[constant(scene.module, key).lower()] = constant(scene.module, value).lower()
    return options


def _target_guards(target: str) -> set[Guard]:
    guards: set[Guard] = set()
    if is_temporary(target):
        guards.add("temporary")
    if names_the_run(target):
        guards.add("run_path")
    if is_log(target):
        guards.add("log")
    return guards


def _is_anti_joined(scene: Scene, call: ast.Call, chain: Chain) -> bool:
    return any(_anti(part) for part in _history(scene, chain))


def _anti(call: ast.Call) -> bool:
    if method(call) in ("subtract", "exceptAll"):
        return True
    if method(call) != "join":
        return False
    how = literal(argument(call, 2, "how"))
    return isinstance(how, str) and how.replace("_", "").lower() in ("leftanti", "anti")


def _history(scene: Scene, chain: Chain, depth: int = 0) -> list[ast.Call]:
    """Every call that made the frame, through variables and one level of functions."""
    calls = [link.call for link in chain.links if link.call is not None]
    root = chain.root
    if depth < 4:
        if isinstance(root, ast.Name):
            for value in scene.module.values.get((scene.module.unit(root), root.id), [])[:6]:
                if isinstance(value, ast.Call):
                    calls.extend(_history(scene, unroll(scene.module, value, through=False), depth + 1))
        elif isinstance(root, ast.Call):
            calls.append(root)
            if isinstance(root.func, ast.Name) and root.func.id in scene.module.functions:
                calls.extend(
                    part for part in ast.walk(scene.module.functions[root.func.id]) if isinstance(part, ast.Call)
                )
            for value in root.args[:3]:
                if isinstance(value, (ast.Name, ast.Call)):
                    calls.extend(_history(scene, unroll(scene.module, value), depth + 1))
    return calls[:300]


def is_sliced(scene: Scene, call: ast.Call, chain: Chain) -> bool:
    """The frame is one slice of time: it was filtered by a date, read from a dated path, or the function has a run date."""
    for part in _history(scene, chain):
        if method(part) in ("filter", "where"):
            text = scene.module.source(part, 400)
            if _DATE.search(text) and re.search(r"==|>=|between|BETWEEN|[^<>=!]=[^=]", text):
                return True
        if method(part) == "sql" and part.args:
            text = constant(scene.module, part.args[0])
            if re.search(r"\bwhere\b.*(date|_dt|ds|day|hour|month)\w*\s*(=|>=|between)", text, re.I | re.S):
                return True
        if (
            method(part) in ("load", "parquet", "csv", "json", "orc")
            and part.args
            and names_the_run(constant(scene.module, part.args[0]))
        ):
            return True
    function = scene.module.owner(call)
    if function is not None:
        names = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
        return any(is_date_argument(name) for name in names)
    return False


def _sources(scene: Scene, chain: Chain) -> tuple[str, ...]:
    found = []
    ends = [index for index, link in enumerate(chain.links) if link.name == "write"]
    before = Chain(chain.root, chain.links[: ends[-1]] if ends else chain.links)
    for part in _history(scene, before):
        if method(part) in ("load", "parquet", "csv", "json", "orc", "table", "read_parquet", "read_csv"):
            value = part.args[0] if part.args else None
            text = constant(scene.module, value) or (scene.module.source(value, 40) if value is not None else "")
            found.append(text.strip().lower())
    return tuple(dict.fromkeys(item for item in found if item))


def _spark_read(scene: Scene, call: ast.Call, name: str) -> None:
    value = argument(call, 0, "path")
    target = constant(scene.module, value).lower() if value is not None else ""
    if target:
        latest = bool(re.search(r"(^|/)latest(/|$)", target))
        scene.gathering.add(ReadFact(scene.place(call), "spark", target, latest=latest))


def _write_to(scene: Scene, call: ast.Call, name: str) -> None:
    chain = unroll(scene.module, call)
    start = next(iter(chain.calls("writeTo")), None)
    target = constant(scene.module, start.args[0]).lower() if start is not None and start.args else ""
    guards: set[Guard] = set(_target_guards(target))
    if _is_anti_joined(scene, call, chain):
        guards.add("anti_join")
    verb: Verb = "append" if name == "append" else "overwrite"
    if name == "overwritePartitions":
        guards.add("dynamic_overwrite")
    elif name == "overwrite":
        guards.add("replace_where")
    scene.gathering.add(
        WriteFact(scene.place(call, transaction=""), verb, "spark", target, f".writeTo().{name}()", frozenset(guards))
    )


def _to_sql(scene: Scene, call: ast.Call, name: str) -> None:
    given = keyword(call, "if_exists")
    target = constant(scene.module, argument(call, 0, "name", "destination_table")).strip().lower()
    if given is None and len(call.args) > 3:
        given = call.args[3]
    guards: set[Guard] = set(_target_guards(target))
    if isinstance(given, ast.IfExp):
        guards.add("first_chunk_replaces")
        mode = "append"
    else:
        mode = constant(scene.module, given).lower() if given is not None else "fail"
    if keyword(call, "method") is not None and "upsert" in scene.module.source(keyword(call, "method")).lower():  # type: ignore[arg-type]
        guards.add("conflict_clause")
    if "drop_duplicates" in scene.module.source(call, 200):
        pass
    if looks_first(scene, call):
        guards.add("looked_first")
    if isinstance(given, (ast.Name, ast.Attribute)) and _switched(scene, given):
        guards.add("first_chunk_replaces")
    verb: Verb | None = "append" if mode == "append" else "overwrite" if mode == "replace" else None
    if verb is None:
        return
    at = given if given is not None and verb == "append" else call
    scene.gathering.add(
        WriteFact(scene.place(call if at is given and at.lineno == call.lineno else at, transaction=_engine_block(scene, call)), verb, "pandas", target,
                  f'{name}(if_exists="{mode}")', frozenset(guards))
    )  # fmt: skip


def _switched(scene: Scene, given: ast.Name | ast.Attribute) -> bool:
    """The mode is a variable that becomes "append" after the first chunk."""
    if not isinstance(given, ast.Name):
        return False
    values = {
        literal(value)
        for value in scene.module.values.get((scene.module.unit(given), given.id), [])
        if isinstance(value, ast.Constant)
    }
    return {"replace", "append"} <= values


def _engine_block(scene: Scene, call: ast.Call) -> str:
    for parent in scene.module.ancestors(call):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
        if isinstance(parent, ast.With) and any(
            "begin" in scene.module.dotted(item.context_expr) for item in parent.items
        ):
            return f"with:{parent.lineno}"
    return ""


def is_delta_merge(scene: Scene, call: ast.Call) -> bool:
    """DeltaTable.merge(source, condition), told from pandas' merge by what follows it."""
    outer: ast.AST = call
    while isinstance(scene.module.parent.get(outer), (ast.Attribute, ast.Call)):
        outer = scene.module.parent[outer]
        if isinstance(outer, ast.Attribute) and outer.attr.startswith("when"):
            return True
    return "DeltaTable" in scene.module.origin(call.func.value if isinstance(call.func, ast.Attribute) else call)


def _delta_merge(scene: Scene, call: ast.Call) -> None:
    outer: ast.AST = call
    words: list[tuple[str, ast.Call | None]] = []
    while isinstance(scene.module.parent.get(outer), (ast.Attribute, ast.Call)):
        outer = scene.module.parent[outer]
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
    unique = _is_unique(scene, source)
    root = unroll(scene.module, call)
    target = ""
    for part in root.calls("forName", "forPath"):
        target = constant(scene.module, argument(part, 1, "path", "tableOrViewName")).lower()
    condition = constant(scene.module, argument(call, 1, "condition", "predicate"))
    shape = MergeShape(
        scene.module.source(source, 40) if source is not None else "the source",
        unique,
        bool(updates),
        versioned,
        any("NotMatched" in n or "not_matched" in n for n in names),
    )
    scene.gathering.add(
        WriteFact(scene.place(call, transaction=""), "merge", "spark", target, "DeltaTable.merge()", frozenset({"conflict_clause"}), merge=shape,
                  key=tuple(re.findall(r"\w+\.(\w+)\s*=", condition)), increments=_adds(scene, words), nothing_on_conflict=not updates)
    )  # fmt: skip


def _adds(scene: Scene, words: list[tuple[str, ast.Call | None]]) -> tuple[str, ...]:
    found = []
    for _, call in words:
        for part in ast.walk(call) if call is not None else ():
            if isinstance(part, ast.Dict):
                for key, value in zip(part.keys, part.values, strict=False):
                    name, text = (
                        str(literal(key) or "").split(".")[-1],
                        constant(scene.module, value) or scene.module.source(value, 120),
                    )
                    if name and re.search(
                        rf"\b(t|target|tgt|base|old|existing|main)\.{re.escape(name)}\b[^,]*[-+]|[-+]\s*(t|target|tgt)\.{re.escape(name)}\b",
                        text,
                    ):
                        found.append(name)
    return tuple(found)


def _is_unique(scene: Scene, source: ast.expr | None) -> bool | None:
    if source is None:
        return None
    calls = _history(scene, unroll(scene.module, source))
    if isinstance(source, ast.Name) and not scene.module.values.get((scene.module.unit(source), source.id)):
        # The frame is a parameter: look at what else this function does with it.
        function = scene.module.owner(source)
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
        constant(scene.module, part.args[0]).lower() for part in calls if method(part) == "sql" and part.args
    )
    return True if re.search(r"row_number|group\s+by|distinct", texts) else None


def _file_write(scene: Scene, call: ast.Call, name: str) -> None:
    target = (
        constant(
            scene.module, argument(call, 0, "path", "path_or_buf", "table_name", "table", "table_or_uri", "target")
        )
        .strip()
        .lower()
    )
    guards: set[Guard] = set(_target_guards(target))
    mode = constant(scene.module, keyword(call, "mode", "if_table_exists", "if_exists")).lower()
    wrangler = "wrangler" in scene.module.dotted(call.func)
    if mode in ("a", "append"):
        if looks_first(scene, call):
            guards.add("looked_first")
        engine = "file" if name in ("to_csv", "to_json") and not wrangler else "pandas"
        scene.gathering.add(
            WriteFact(
                scene.place(call, transaction=""), "append", engine, target, f'{name}(mode="{mode}")', frozenset(guards)
            )
        )
    elif mode in ("overwrite", "overwrite_partitions", "replace"):
        guards |= {"dynamic_overwrite"} if mode == "overwrite_partitions" else set()
        scene.gathering.add(
            WriteFact(
                scene.place(call, transaction=""),
                "overwrite",
                "pandas",
                target,
                f'{name}(mode="{mode}")',
                frozenset(guards),
            )
        )
    elif name == "to_parquet" and keyword(call, "partition_cols") is not None and not wrangler:
        if literal(keyword(call, "existing_data_behavior")) is None and keyword(call, "basename_template") is None:
            scene.gathering.add(
                WriteFact(
                    scene.place(call, transaction=""),
                    "append",
                    "pandas",
                    target,
                    "to_parquet(partition_cols=…)",
                    frozenset(guards),
                )
            )
    elif wrangler and name == "to_parquet" and literal(keyword(call, "dataset")) is True and not mode:
        scene.gathering.add(
            WriteFact(
                scene.place(call, transaction=""),
                "append",
                "pandas",
                target,
                "to_parquet(dataset=True)",
                frozenset(guards),
            )
        )


__all__ = ["collect_frames", "is_outermost", "is_sliced"]
