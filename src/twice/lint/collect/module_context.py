"""One Python file as the collectors see it: its tree, what runs where, and the facts so far."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from twice.lint.facts import Place
from twice.lint.gather import Gathering
from twice.lint.resolve.module import MODULE, LintedModule, keyword, literal, method
from twice.lint.settings import LintSettings

_CALLBACKS = ("on_failure_callback", "on_success_callback", "on_retry_callback", "sla_miss_callback",
              "on_execute_callback", "on_skipped_callback", "on_failure", "on_completion",
              "on_cancellation")  # fmt: skip
_CALLBACK_NAME = re.compile(
    r"(on_|_on_)(fail|success|error|retry|sla)|(failure|error|success|sla|slack|task|dag)_(callback|alert|notif\w*)|callback|"
    r"^(send_)?alert|_alert$|notify_(fail|error|on)|^log_error", re.IGNORECASE
)  # fmt: skip
_TRANSFORMS = {
    "map", "flatMap", "foreach", "foreachPartition", "mapPartitions", "mapInPandas", "mapInArrow", "applyInPandas",
               "mapValues", "udf", "pandas_udf", "ParDo", "mapPartitionsWithIndex"}  # fmt: skip
_DATABASES = {
    "psycopg2": "postgres", "psycopg": "postgres", "asyncpg": "postgres", "pymysql": "mysql", "MySQLdb": "mysql",
    "mysql": "mysql", "sqlite3": "sqlite", "snowflake": "snowflake", "cassandra": "cassandra", "pyodbc": "tsql",
    "pymssql": "tsql", "cx_Oracle": "oracle", "oracledb": "oracle", "clickhouse_driver": "clickhouse",
    "clickhouse_connect": "clickhouse", "pyhive": "hive", "impala": "hive", "redshift_connector": "redshift",
    "duckdb": "duckdb", "trino": "trino", "happybase": "hbase",
}  # fmt: skip


class ModuleContext:
    def __init__(self, module: LintedModule, gathering: Gathering, settings: LintSettings) -> None:
        self.module = module
        self.gathering = gathering
        self.settings = settings

    @cached_property
    def imports(self) -> frozenset[str]:
        return frozenset(self.module.aliases.values())

    def imports_any(self, *roots: str) -> bool:
        return any(name.split(".")[0] in roots or name.startswith(roots) for name in self.imports)

    @cached_property
    def database(self) -> str:
        """The database the file talks to, by what it imports; "" when nothing shows it."""
        drivers = {_DATABASES[root] for name in self.imports if (root := name.split(".")[0]) in _DATABASES}
        if drivers:
            return drivers.pop() if len(drivers) == 1 else ""
        hooks = {"Postgres": "postgres", "MySql": "mysql", "Snowflake": "snowflake", "Redshift": "redshift",
                 "MsSql": "tsql",
                 "BigQuery": "bigquery", "Hive": "hive", "Cassandra": "cassandra"}  # fmt: skip
        return next((kind for word, kind in hooks.items() if any(word in name for name in self.imports)), "")

    @cached_property
    def in_memory(self) -> bool:
        """Every database the file opens is gone when the process ends."""
        opened = [call for call in self.module.calls if method(call) in ("connect", "create_engine")]
        return bool(opened) and all(call.args and _is_memory(literal(call.args[0])) for call in opened)

    @cached_property
    def is_dag(self) -> bool:
        return any(method(call) in ("DAG", "dag") for call in self.module.calls) and self.imports_any("airflow")

    @cached_property
    def is_spark(self) -> bool:
        """pyspark is imported, or a notebook uses the session its platform provides."""
        return self.imports_any("pyspark") or any(
            isinstance(node, ast.Name) and node.id == "spark" for node in self.module.nodes
        )

    @cached_property
    def callbacks(self) -> frozenset[str]:
        names: set[str] = {name for name in self.module.functions if _CALLBACK_NAME.search(name)}
        for node in self.module.nodes:
            pairs: list[tuple[object, ast.expr]] = []
            if isinstance(node, ast.Call):
                pairs = [(item.arg, item.value) for item in node.keywords]
            elif isinstance(node, ast.Dict):
                pairs = [(literal(key), value) for key, value in zip(node.keys, node.values, strict=False)]
            for name, value in pairs:
                if name in _CALLBACKS:
                    names.update(_names_in(value))
        return frozenset(names)

    @cached_property
    def batch_handlers(self) -> frozenset[str]:
        return frozenset(
            name
            for call in self.module.calls
            if method(call) == "foreachBatch"
            for value in call.args
            for name in _names_in(value)
        )

    @cached_property
    def transforms(self) -> frozenset[str]:
        names: set[str] = set()
        for call in self.module.calls:
            if method(call) in _TRANSFORMS and (
                isinstance(call.func, ast.Attribute) or method(call) in ("udf", "pandas_udf")
            ):
                for value in call.args[:2]:
                    names.update(_names_in(value) if not isinstance(value, ast.Lambda) else ())
        for name, function in self.module.functions.items():
            if any("udf" in self.module.dotted(item).lower() for item in function.decorator_list):
                names.add(name)
        return frozenset(names & set(self.module.functions))

    def within(self, node: ast.AST) -> frozenset[str]:
        flags: set[str] = set()
        child: ast.AST = node
        for parent in self.module.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                flags |= self._of_function(parent.name)
                break
            if isinstance(parent, (ast.For, ast.While, ast.AsyncFor)) and child not in parent.orelse:
                flags.add("loop")
            elif isinstance(parent, ast.If) and child is not parent.test:
                flags.add("branch")
            elif isinstance(parent, ast.ExceptHandler):
                flags.add("except")
            elif isinstance(parent, ast.Lambda):
                call = self.module.parent.get(parent)
                if isinstance(call, ast.Call) and method(call) in _TRANSFORMS:
                    flags.add("transform")
                if isinstance(call, ast.Call) and method(call) == "foreachBatch":
                    flags.add("foreach_batch")
            child = parent
        return frozenset(flags)

    def _of_function(self, name: str) -> set[str]:
        flags = set()
        if name in self.callbacks:
            flags.add("callback")
        if name in self.batch_handlers:
            flags.add("foreach_batch")
        if name in self.transforms:
            flags.add("transform")
        return flags

    def place(self, node: ast.AST, *, transaction: str = "?", unit: str = "", order: int = 0) -> Place:
        span = self.module.span(node)
        return Place(span, unit or self.unit(node), order or span.line, transaction, self.within(node))

    def unit(self, node: ast.AST) -> str:
        """The function; for code of an Airflow operator's arguments, that operator."""
        unit = self.module.unit(node)
        for parent in (node, *self.module.ancestors(node)):
            if isinstance(parent, ast.Call) and is_operator(method(parent)):
                task = literal(keyword(parent, "task_id"))
                return f"task {task or parent.lineno}"
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                break
        return unit

    def constant_scope(self, node: ast.AST) -> bool:
        return self.module.unit(node) == MODULE or self.module.unit(node).startswith("class ")


def is_operator(name: str) -> bool:
    return name.endswith(("Operator", "Sensor")) and name[:1].isupper()


def _names_in(value: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(value) if isinstance(node, ast.Attribute)
    }


def _is_memory(address: object) -> bool:
    return address in (":memory:", "sqlite://", "sqlite:///:memory:", "duckdb:///:memory:")
