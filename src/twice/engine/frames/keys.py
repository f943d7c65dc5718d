"""The recipe `v1` of `twice.core.keys`, in Spark's built-in functions: one expression, as a Column or as SQL.

A column named by its name has no type until the query is analysed, so the expression holds the form of every type
and chooses by `typeof`. That is a constant after analysis: the optimiser leaves only the form of the column's type.
Each form must therefore *analyse* for every type, also where it is never used; that decides the functions used here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from twice.core.closed import assert_never
from twice.core.keys import DIGITS, KEY_HEADER, NULL, ROW_HEADER, encoded, row_order
from twice.core.names.spark import quoted
from twice.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def surrogate_key(*columns: str | Column) -> Column:
    """The key of these columns, in this order; equal to `twice.keys.surrogate_key` of the row's values.

    It depends neither on the session's time zone nor on ANSI mode nor on parallelism. A column of a type the recipe
    does not know fails the query at its first row, naming the type and the way out.
    """
    key = _key([_Name(column) if isinstance(column, str) else _Given(column) for column in columns])
    return _column(key).alias("surrogate_key")


def surrogate_key_sql(*columns: str) -> str:
    """The same as Spark SQL, for use in a query. Columns are named as in the query: `order_id`, `o.order_id`."""
    return _sql(_key([_Name(column) for column in columns]))


def stable_row_hash(rows: DataFrame | str, *columns: str) -> Column:
    """One hash for the values of each row, to see whether it changed: of a frame (all its columns, or those named),
    or of columns by name alone. Equal to `twice.keys.stable_row_hash` of the row as a dict.

    The order of the columns and the case of their names do not matter; a column more or fewer does.
    """
    if isinstance(rows, str):
        return _column(_row([rows, *columns])).alias("row_hash")
    chosen = list(columns) or [quoted(name) for name in rows.columns]
    _check_types(rows.select(*chosen))
    return _column(_row(chosen)).alias("row_hash")


def stable_row_hash_sql(*columns: str) -> str:
    """The same as Spark SQL. Its columns must be named: an expression cannot ask what `*` means."""
    return _sql(_row(columns))


@dataclass(frozen=True)
class _Call:
    function: str
    arguments: tuple[_Expression, ...]


@dataclass(frozen=True)
class _Text:
    """The value as Spark writes it: `try_cast`, since without ANSI a plain cast writes a small decimal as 1E-7."""

    value: _Expression


@dataclass(frozen=True)
class _Name:
    """A column by its name, as `pyspark.sql.functions.col` takes it."""

    name: str


@dataclass(frozen=True)
class _Given:
    """A column the user made."""

    column: Column


_Expression: TypeAlias = _Call | _Text | _Name | _Given | str | int
_Form: TypeAlias = Callable[[_Expression], _Expression]

_CLOCK = "yyyy-MM-dd HH:mm:ss.SSSSSS"
# Without a backslash: what that means in a SQL literal is a setting of the session.
_TRAILING_ZEROS = "[.]0+$|([.][0-9]*[1-9])0+$"
_REFUSED = "a key does not take a column of type "
_WAY_OUT = "Name its parts, or turn it into text first."


def _key(values: Sequence[_Expression]) -> _Expression:
    if not values:
        raise UsageError("surrogate_key needs at least one column")
    return _digest(KEY_HEADER, [_encoded(value) for value in values])


def _row(columns: Sequence[str]) -> _Expression:
    names = [_parts(column)[-1] for column in columns]
    order = row_order(names)
    written = dict(zip(names, columns, strict=True))
    parts = [part for name, key in order for part in (encoded(key).decode(), _encoded(_Name(written[name])))]
    return _digest(ROW_HEADER, parts)


def _digest(header: str, parts: Sequence[_Expression]) -> _Expression:
    message = _call("binary", _call("concat", header, *parts))
    return _call("substring", _call("sha2", message, 256), 1, DIGITS)


def _encoded(value: _Expression) -> _Expression:
    kind = _call("typeof", value)
    word = _call("substring_index", _call("substring_index", kind, "(", 1), " ", 1)
    chosen = _call("raise_error", _call("concat", _REFUSED, kind, f". {_WAY_OUT}"))
    for kinds, form in _FORMS:
        chosen = _call("if", _call("array_contains", _call("array", *kinds), word), form(value), chosen)
    return _call("if", _call("isnull", value), NULL, chosen)


def _check_types(rows: DataFrame) -> None:
    """Where there is a frame its types are known, and nobody has to wait for the first row."""
    taken = {kind for kinds, _ in _FORMS for kind in kinds} | {"void"}
    for field in rows.schema.fields:
        kind = field.dataType.simpleString()
        if re.split("[( ]", kind)[0] not in taken:
            raise UsageError(f"column {field.name}: {_REFUSED}{kind}", fix=f"{_WAY_OUT} Or name the columns to hash.")


def _tagged(tag: str, text: _Form) -> _Form:
    return lambda value: _call("concat", tag, text(value), ";")


def _string(value: _Expression) -> _Expression:
    text = _Text(value)
    return _call("concat", "s", _Text(_call("octet_length", text)), ":", text, ";")


def _exact(value: _Expression) -> _Expression:
    return _call("regexp_replace", _Text(value), _TRAILING_ZEROS, "$1")


def _base_16(value: _Expression) -> _Expression:
    # The decimal text of a double is not the same from Java 17 and Java 19; its digits in base 16 are.
    return _call("replace", _call("format_string", "%a", value), "-0x0.0p0", "0x0.0p0")


def _clock(value: _Expression) -> _Expression:
    # Only to_json both takes a column of any type and lets the zone be set: {"v":"2026-06-09 22:15:00.000000"}.
    options = _call("map", "timeZone", "UTC", "timestampFormat", _CLOCK, "timestampNTZFormat", _CLOCK)
    written = _call("to_json", _call("named_struct", "v", value), options)
    return _call("substring_index", _call("substring", written, 7), '"', 1)


def _hexadecimal(value: _Expression) -> _Expression:
    # `hex` takes no DATE, so BINARY goes by STRING, which keeps the bytes as they are, UTF-8 or not.
    return _call("hex", _Text(value))


_FORMS: tuple[tuple[tuple[str, ...], _Form], ...] = (
    (("float", "double"), _tagged("f", _base_16)),
    (("binary",), _tagged("x", _hexadecimal)),
    (("boolean",), _tagged("b", _Text)),
    (("timestamp_ntz",), _tagged("w", _clock)),
    (("timestamp",), _tagged("t", _clock)),
    (("date",), _tagged("d", _Text)),
    (("decimal",), _tagged("n", _exact)),
    (("tinyint", "smallint", "int", "bigint"), _tagged("n", _Text)),
    (("string", "varchar", "char"), _string),
)
"""Types, by the first word of their names (`string collate UTF8_LCASE` is a string), and how each is written."""


def _call(function: str, *arguments: _Expression) -> _Call:
    return _Call(function, arguments)


def _sql(expression: _Expression) -> str:
    match expression:
        case _Call(function, arguments):
            return f"{function}({', '.join(_sql(argument) for argument in arguments)})"
        case _Text(value):
            return f"try_cast({_sql(value)} AS STRING)"
        case _Name(name):
            return ".".join(quoted(part) for part in _parts(name))
        case _Given():
            raise UsageError("a Column has no SQL text", fix="Give the column's name.")
        case str():
            return _literal(expression)
        case int():
            return str(expression)
        case _:
            assert_never(expression)


def _column(expression: _Expression) -> Column:
    # Imported here: `import twice` loads no engine.
    from pyspark.sql import functions

    if not _holds_given(expression):
        return functions.expr(_sql(expression))  # one call to the JVM instead of some hundred
    match expression:
        case _Call(function, arguments):
            return functions.call_function(function, *(_column(argument) for argument in arguments))
        case _Text(value):
            return _column(value).try_cast("string")
        case _Given(column):
            return column
        case _Name() | str() | int():
            return functions.expr(_sql(expression))
        case _:
            assert_never(expression)


def _holds_given(expression: _Expression) -> bool:
    match expression:
        case _Call(_, arguments):
            return any(_holds_given(argument) for argument in arguments)
        case _Text(value):
            return _holds_given(value)
        case _Given():
            return True
        case _Name() | str() | int():
            return False
        case _:
            assert_never(expression)


def _literal(text: str) -> str:
    # What a quote and a backslash mean in a literal is a setting of the session; what bytes mean is not.
    plain = not re.search(r"['\\\x00-\x1f]", text)
    return f"'{text}'" if plain else f"string(X'{text.encode().hex()}')"


def _parts(name: str) -> list[str]:
    """`a.b` is b of a, and `` `a.b` `` is one name, as Spark reads a column's name."""
    found = re.findall(r"`((?:[^`]|``)*)`(?:\.|$)|([^.`]+)(?:\.|$)", name)
    if not found:
        raise UsageError(f"{name!r} is not a column name")
    return [inside.replace("``", "`") or plain for inside, plain in found]
