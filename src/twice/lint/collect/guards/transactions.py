"""Which database calls commit together."""

from __future__ import annotations

import ast
import re

from twice.lint.collect.module_context import ModuleContext, is_operator
from twice.lint.facts import TxnFact
from twice.lint.resolve.module import keyword, literal, method

_BLOCK = re.compile(r"(\.|^)(begin|begin_nested|atomic|transaction|session_scope|get_session|create_session)(\(\))?$")
_CONNECT = re.compile(r"(connect|get_conn|connection|getconn|Session|sessionmaker|conn|session|db)(\(\))*$")
_CONNECTION = re.compile(r"^(self\.)?\w*(conn|connection|cur|cursor|session|tx|transaction|db|engine)\w*$", re.I)
_ALONE = ("snowflake", "bigquery", "hive", "trino", "clickhouse", "spark", "cassandra")


class TransactionBlocks:
    """Commits and transaction blocks of one file."""

    def __init__(self, context: ModuleContext) -> None:
        self.context = context
        self.commits: dict[str, list[int]] = {}
        self.autocommit: set[str] = set()
        self._collect()

    def _collect(self) -> None:
        module = self.context.module
        for call in module.calls:
            name = method(call)
            if name == "commit" and isinstance(call.func, ast.Attribute) and not self._is_offset(call):
                place = self.context.place(call)
                if "except" not in place.within:
                    self.commits.setdefault(place.unit, []).append(call.lineno)
                    self.context.gathering.add(TxnFact(place, "commit"))
            turns_on = keyword(call, "autocommit")
            if turns_on is not None and literal(turns_on) is True and not is_operator(name) and name != "run":
                self._autocommits(call)
            if literal(keyword(call, "isolation_level")) == "AUTOCOMMIT":
                self._autocommits(call)
        for node in module.nodes:
            if isinstance(node, ast.Assign) and literal(node.value) is True:
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and target.attr == "autocommit":
                        self._autocommits(node)
            elif isinstance(node, ast.Attribute) and node.attr == "ISOLATION_LEVEL_AUTOCOMMIT":
                self._autocommits(node)

    def _autocommits(self, node: ast.AST) -> None:
        self.autocommit.add(self.context.module.unit(node))
        self.context.gathering.add(TxnFact(self.context.place(node), "autocommit"))

    def _is_offset(self, call: ast.Call) -> bool:
        """A Kafka consumer's commit is about offsets, not rows."""
        return (
            isinstance(call.func, ast.Attribute) and "consumer" in self.context.module.source(call.func.value).lower()
        )

    def of(self, call: ast.Call | None) -> str:
        """The transaction a statement runs in: equal names commit together, "" commits alone, "?" is unknown."""
        if call is None:
            return "?"
        name = method(call)
        unit = self.context.unit(call)
        if is_operator(name):
            return (
                ""
                if any(word in name for word in ("Snowflake", "BigQuery", "Hive", "Athena", "Databricks"))
                else f"operator:{call.lineno}"
            )
        if name in ("sql", "query", "query_and_wait") or self.context.database in _ALONE:
            return self._block(call, unit) or ""
        if name == "run" or name in ("get_records", "get_first", "get_pandas_df"):
            return "" if literal(keyword(call, "autocommit")) is True else f"call:{call.lineno}"
        block = self._block(call, unit)
        if block:
            return block
        receiver = self.context.module.source(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if "engine" in receiver or self.autocommit:
            return ""
        if isinstance(call.func, ast.Name) and not any(
            _CONNECTION.search(self.context.module.source(item)) for item in call.args
        ):
            return ""  # a function that gets no connection opens its own
        return (
            f"{unit}#{self._before(unit, call.lineno)}"
            if name.startswith(("execute", "copy_", "run_", "to_sql"))
            else "?"
        )

    def _block(self, call: ast.Call, unit: str) -> str:
        for parent in self.context.module.ancestors(call):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if any(_BLOCK.search(self.context.module.dotted(item)) for item in parent.decorator_list):
                    return f"function:{parent.lineno}"
                return ""
            if isinstance(parent, (ast.With, ast.AsyncWith)):
                for item in parent.items:
                    dotted = self.context.module.dotted(item.context_expr)
                    if _BLOCK.search(dotted):
                        return f"with:{parent.lineno}"
                    if _CONNECT.search(dotted.removesuffix("()")) and "cursor" not in dotted and "engine" not in dotted:
                        return f"with:{parent.lineno}#{self._before(unit, call.lineno)}"
        return ""

    def _before(self, unit: str, line: int) -> int:
        return sum(1 for commit in self.commits.get(unit, ()) if commit < line)
