"""Does a task's function make the same query plan of the same inputs? Asked without making it.

A plan shows everything that went into it, but takes an engine to be made. Where a function is plain (it calls Spark's
functions and the lazy methods of frames, other plain functions of the project, and names values that are plain data),
one hash over all of that stands for its plan. It is kept with each publish; where the hash of now is another, or there
is none, the plan itself is made and compared.

Everything is on a list of what is allowed here: what is not on it (a class of the project, an installed package, an
import inside the function, an action such as `collect`, a session, anything that is found by its name) leads to the
plan. A wrong list would call a slice published that is not.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import CodeType, FunctionType, ModuleType
from typing import Any

from twice.core.param import Param
from twice.core.task import Task
from twice.engine.code.modules import home_of
from twice.engine.code.names import UsedName, codes_of, used_names
from twice.engine.code.packages import is_of_project
from twice.engine.code.values import identify_function

_OF_A_QUERY = "query"
"""A query's text is in the code hash; what a function of the catalog means is a leaf of its plan."""

_SPARK_MODULES = ("pyspark.sql.functions", "pyspark.sql.types", "pyspark.sql.window", "pyspark.sql.column")
_KEYS = frozenset({"surrogate_key", "stable_row_hash"})
_PLAIN = (type(None), bool, int, float, str, bytes, date, datetime, timedelta, Decimal)
_MAKERS = frozenset({date, datetime, timedelta, Decimal})


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


_BUILT_IN = _words(
    "abs all any bool dict enumerate filter float int isinstance len list map max min range reversed round sorted str",
    "sum tuple zip",
)
_LAZY = _words(
    "agg alias asc asc_nulls_first asc_nulls_last astype avg between bitwiseAND bitwiseOR bitwiseXOR cast",
    "coalesce colRegex columns contains corr crossJoin cube currentRow dataType desc desc_nulls_first",
    "desc_nulls_last distinct drop dropDuplicates dropDuplicatesWithinWatermark dropFields drop_duplicates dropna",
    "dtypes endswith eqNullSafe except exceptAll fieldNames fields fill fillna filter getField getItem groupBy",
    "groupby groupingSets hint ilike intersect intersectAll isNaN isNotNull isNull isin join like limit max mean",
    "melt min na name nullable orderBy otherwise over partitionBy pivot rangeBetween repartition replace rlike",
    "rollup rowsBetween schema select selectExpr simpleString sort startswith substr subtract sum transform",
    "unbounded unboundedFollowing unboundedPreceding union unionAll unionByName unpivot when where withColumn",
    "withColumnRenamed withColumns withColumnsRenamed withField withMetadata",
)
"""Of frames, columns, groups, windows and types: nothing of it asks Spark for rows. `count` is not
among them: of a frame it does."""
_OF_VALUES = _words(
    "append capitalize copy date days endswith extend format get index items join keys lower lstrip month rstrip",
    "split startswith strip title upper values year zfill isoformat strftime total_seconds replace quantize",
)
_OF_RUN = _words("slice slices label start end")
_ALLOWED = _LAZY | _OF_VALUES | _OF_RUN


def recipe(task: Task) -> str | None:
    """None where nothing shows it. Runs nothing of the function."""
    if any(isinstance(source, Param) and source.secret for source in task.inputs.values()):
        return None  # what a secret makes of the plan is seen in the plan alone
    if task.sql is not None:
        return _OF_A_QUERY
    if not _is_plain_function(task.function, set()):
        return None
    return identify_function(task.name, task.function, home_of(task.function)).identity


def _is_plain_function(function: Any, seen: set[int]) -> bool:
    if type(function) is not FunctionType or hasattr(function, "__wrapped__") or function.__closure__:
        return False
    if id(function) in seen:
        return True
    seen.add(id(function))
    held = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    used = used_names(function)
    return (
        is_of_project(function.__module__, function.__code__.co_filename, home_of(function))
        and all(map(_is_plain_code, codes_of(function.__code__)))
        and all(map(_is_plain_value, held))
        and _takes_plain_attributes(function)
        and all(_is_allowed(each, seen) for each in used.reached)
    )


def _is_plain_code(code: CodeType) -> bool:
    """No import, no set (its order is another in each process), no global that is bound."""
    forbidden = {"IMPORT_NAME", "BUILD_SET", "SET_ADD", "SET_UPDATE", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR"}
    if any(isinstance(each, frozenset) for each in code.co_consts):
        return False
    return not any(each.opname in forbidden for each in dis.get_instructions(code))


def _is_plain_value(value: Any) -> bool:
    """Data through and through, of Python's own types: nothing of it runs code when it is used."""
    kind = type(value)
    if kind in (list, tuple):
        return all(map(_is_plain_value, value))
    if kind is dict:
        return all(map(_is_plain_value, (*value, *value.values())))
    return kind in _PLAIN


def _is_allowed(each: UsedName, seen: set[int]) -> bool:
    value = each.value
    if each.unloaded:
        return False
    if isinstance(value, ModuleType):
        return _is_spark_module(value)
    module, name = getattr(value, "__module__", None) or "", getattr(value, "__name__", "")
    if each.dotted.startswith("builtins."):
        return each.whole and name in _BUILT_IN and module == "builtins"
    if isinstance(module, str) and module.startswith(_SPARK_MODULES):
        return True
    if module.startswith("twice.") and name in _KEYS:
        return True
    if isinstance(value, type):
        return value in _MAKERS
    return _is_plain_value(value) or _is_plain_function(value, seen)


def _takes_plain_attributes(function: FunctionType) -> bool:
    """What is taken of frames, columns and values by its name, where Spark's classes mean by it what they always do."""
    from pyspark.sql import Column, DataFrame, GroupedData
    from pyspark.sql.classic import column, dataframe

    classes = (DataFrame, Column, GroupedData, dataframe.DataFrame, column.Column)
    for name in _attributes(function):
        own = (getattr(each, name, None) for each in classes)
        if name not in _ALLOWED or any(not _is_of_spark(each) for each in own if isinstance(each, FunctionType)):
            return False
    return True


def _is_of_spark(method: FunctionType) -> bool:
    return method.__module__.startswith("pyspark.")


def _attributes(function: FunctionType) -> Iterator[str]:
    """Without those of Spark's modules: `F.count` is no `frame.count`."""
    for code in codes_of(function.__code__):
        before: dis.Instruction | None = None
        for each in dis.get_instructions(code):
            if each.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                of_module = before is not None and before.opname == "LOAD_GLOBAL"
                if not (of_module and _is_spark_module(function.__globals__.get(before.argval))):  # type: ignore[union-attr]
                    yield str(each.argval)
            before = before if each.opname in _BETWEEN else each


def _is_spark_module(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__ in _SPARK_MODULES


_BETWEEN = frozenset({"PUSH_NULL", "PRECALL", "CACHE", "EXTENDED_ARG", "NOP"})
