"""Writes of the user's code through Spark, refused and named before they begin.

PySpark's methods that write are exchanged for the life of this process, which a proof started. Code of twice passes:
who calls is read from the stack, so it holds in every thread.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from twice.proof.enclosure.hook import Guard, caller

_TO_A_PATH: dict[type, tuple[str, ...]] = {
    DataFrameWriter: ("save", "parquet", "json", "csv", "orc", "text", "xml"),
    DataStreamWriter: ("start",),
    RDD: (
        *("saveAsTextFile", "saveAsPickleFile", "saveAsSequenceFile", "saveAsHadoopFile"),
        *("saveAsNewAPIHadoopFile", "saveAsHadoopDataset", "saveAsNewAPIHadoopDataset"),
    ),
}
_TO_A_TABLE: dict[type, tuple[str, ...]] = {
    DataFrameWriter: ("saveAsTable", "insertInto"),
    DataFrameWriterV2: ("append", "overwrite", "overwritePartitions", "create", "createOrReplace", "replace"),
    DataStreamWriter: ("toTable",),
    MergeIntoWriter: ("merge",),
    Catalog: ("createTable", "createExternalTable"),
}
_ELSEWHERE: dict[type, tuple[str, ...]] = {DataFrameWriter: ("jdbc",)}
_COMMANDS = "org.apache.spark.sql.catalyst.plans.logical."
_HARMLESS = re.compile(
    r"Show\w*|Describe\w*|Explain\w*|List\w*|Cache\w*|Uncache\w*|ClearCache\w*|Refresh\w*|Reset\w*|Add\w*Command"
    r"|SetCommand|SetCatalogAndNamespace|SetCatalogCommand|SetNamespaceCommand|SetVariable|CreateVariable|DropVariable"
    r"|CreateTempViewUsing|DropView|SetPath\w*"
)
_TEMPORARY = re.compile(r"\s*(CREATE|DROP)\s+(OR\s+REPLACE\s+)?(GLOBAL\s+)?TEMP(ORARY)?\s", re.IGNORECASE)
_PATH_IN = re.compile(r"""[`'"]((?:file:)?/[^`'"]+)[`'"]""")
_PARAMETER = re.compile(r"\{[^{}]*\}")
_LONGEST = 120


def guard_writes(guard: Guard, *, catalog: bool) -> None:
    """From now on. `catalog`: tables may be written by name, since they are those of a scratch catalog and the job
    knows no other way; a task has one table, and twice writes it."""
    for owner, name in _named(_TO_A_PATH):
        _exchange(guard, owner, name, _path_refused)
    for owner, name in _named(_ELSEWHERE):
        _exchange(guard, owner, name, lambda *_: True)
    if not catalog:
        for owner, name in _named(_TO_A_TABLE):
            _exchange(guard, owner, name, lambda *_: True)
        _remember_table("writeTo")
        _remember_table("mergeInto")
    for owner in (DataFrameWriter, DataStreamWriter):
        _remember_settings(owner)
    _exchange_sql(guard, catalog=catalog)


def _named(methods: dict[type, tuple[str, ...]]) -> Iterator[tuple[type, str]]:
    return ((owner, name) for owner, names in methods.items() for name in names if hasattr(owner, name))


def _exchange(guard: Guard, owner: type, name: str, refused: Callable[[Guard, str], bool]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def guarded(self: Any, *args: Any, **named: Any) -> Any:
        frame = sys._getframe(1)
        target = _target(self, args, named)
        writes = _setting(self, "format", named) != "noop"  # which computes, and writes nothing
        if writes and caller(frame, through_spark=True)[0] in ("user", "library") and refused(guard, target):
            guard.refuse("table", f"{owner.__name__}.{name} {target}".strip(), frame)
        return original(self, *args, **named)

    setattr(owner, name, guarded)


def _exchange_sql(guard: Guard, *, catalog: bool) -> None:
    original = SparkSession.sql

    @functools.wraps(original)
    def sql(session: Any, sqlQuery: str, *args: Any, **named: Any) -> Any:  # noqa: N803 - PySpark's own name
        frame = sys._getframe(1)
        # PySpark puts a name in place of a parameter of its own: any will do to see what kind of statement it is.
        readable = _PARAMETER.sub("parameter", sqlQuery) if named else sqlQuery
        if caller(frame, through_spark=True)[0] in ("user", "library") and _writes(session, readable):
            target = _PATH_IN.search(sqlQuery)
            if not catalog or (target is not None and _path_refused(guard, target[1])):
                guard.refuse("table", " ".join(sqlQuery.split())[:_LONGEST], frame)
        return original(session, sqlQuery, *args, **named)

    setattr(SparkSession, "sql", sql)  # noqa: B010 - mypy knows it as a method


def _remember_table(method: str) -> None:
    """The writers that these give forget which table they write."""
    original = getattr(ClassicFrame, method, None)
    if original is None:
        return

    @functools.wraps(original)
    def remembering(frame: Any, table: str, *args: Any, **named: Any) -> Any:
        writer = original(frame, table, *args, **named)
        writer.__dict__["_twice_table"] = table
        return writer

    setattr(ClassicFrame, method, remembering)


def _remember_settings(owner: Any) -> None:
    """The JVM keeps a writer's settings and gives them to nobody."""
    form, option, options = owner.format, owner.option, owner.options

    @functools.wraps(form)
    def format_(writer: Any, source: str) -> Any:
        writer.__dict__["_twice_format"] = source
        return form(writer, source)

    @functools.wraps(option)
    def option_(writer: Any, key: str, value: Any) -> Any:
        if key.lower() == "path":
            writer.__dict__["_twice_path"] = value
        return option(writer, key, value)

    @functools.wraps(options)
    def options_(writer: Any, **given: Any) -> Any:
        for key, value in given.items():
            if key.lower() == "path":
                writer.__dict__["_twice_path"] = value
        return options(writer, **given)

    owner.format, owner.option, owner.options = format_, option_, options_


def _writes(session: Any, statement: str) -> bool:
    """Whether Spark's own parser takes it for a command that changes more than the session. What it cannot read is
    left to it: it will raise."""
    state = session._jsparkSession.sessionState()
    try:
        return _changes(session, state.sqlParser().parsePlan(statement), statement)
    except (Py4JError, PySparkException):
        return False


def _changes(session: Any, plan: Any, statement: str) -> bool:
    name = str(plan.getClass().getSimpleName())
    if name in ("UnresolvedWith", "Union"):  # WITH … INSERT; FROM … INSERT … INSERT
        children = plan.children()
        return any(_changes(session, children.apply(each), statement) for each in range(children.size()))
    if name == "CompoundBody":  # BEGIN … END: what is in it is not read
        return True
    gateway = session.sparkContext._gateway
    if not any(is_instance_of(gateway, plan, _COMMANDS + each) for each in ("Command", "ParsedStatement")):
        return False
    return not (_HARMLESS.fullmatch(name) or _TEMPORARY.match(statement))


def _path_refused(guard: Guard, path: str) -> bool:
    """A path of another file system is never a scratch folder's; neither is no path at all."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file") or not parts.path:
        return True
    place = unquote(parts.path) if parts.scheme else path
    return not guard.holds(os.path.realpath(place))


def _target(writer: Any, args: tuple[Any, ...], named: dict[str, Any]) -> str:
    given = next((named[name] for name in ("path", "name", "tableName", "table") if named.get(name)), None)
    first = args[0] if args and isinstance(args[0], (str, os.PathLike)) else None
    return str(_setting(writer, "table", {}) or given or first or _setting(writer, "path", {}) or "")


def _setting(writer: Any, setting: str, named: dict[str, Any]) -> Any:
    return named.get(setting) or getattr(writer, "__dict__", {}).get(f"_twice_{setting}")
