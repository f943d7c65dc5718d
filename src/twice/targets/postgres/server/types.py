"""Spark's types and PostgreSQL's: which stands for which, in tables and on the way. Pure.

A column travels as the PostgreSQL type of its Spark type (`transport`): text for everything that Spark knows as a
string. Where the table's own type is another (json, uuid, an enum), the server casts it when the rows are published.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from twice.core.ports import Column
from twice.errors import DeclarationError

_PLAIN = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
_BACK = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "bytea": "binary",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_TEXT = re.compile(r"string|(var)?char\(\d+\)")
_ARRAY = re.compile(r"array<(.+)>")
_CHARACTERS = ("varchar", "bpchar")
_WIDEST = 38
# What Spark itself takes for a number without bounds.
UNBOUNDED = "decimal(38,18)"


@dataclass(frozen=True)
class TableColumn:
    """A column of a table. `type` is Spark's; `native` is as PostgreSQL writes it, `base` its name in the catalog
    (an array's element's). `filled`: the server has a value for it where none is given."""

    name: str
    type: str
    native: str
    base: str
    array: bool = False
    filled: bool = field(default=False, compare=False)

    @property
    def column(self) -> Column:
        return Column(self.name, self.type)

    @property
    def transport(self) -> str:
        return native_of(self.column)

    @property
    def cast(self) -> str | None:
        """The type that the server must cast the travelling value to. Never for character types: assigned, a text
        that is too long is refused; cast, it would be cut off."""
        if self.characters or self.transport == self.native:
            return None
        return self.native

    @property
    def comparable(self) -> bool:
        """Whether PostgreSQL can compare two values for equality: not for json, xml, points."""
        return self.base in _BACK or self.base in ("numeric", "text", "jsonb", "uuid", *_CHARACTERS)

    @property
    def textual(self) -> bool:
        return self.base in ("text", *_CHARACTERS)

    @property
    def characters(self) -> bool:
        """Whether the column may store less or more than it is given: blanks at the end, cut off or added."""
        return self.base in _CHARACTERS


def native_of(column: Column) -> str:
    """The PostgreSQL type of a Spark type. DeclarationError, with a way out, for one that has none."""
    type_ = column.type.lower().strip()
    array = _ARRAY.fullmatch(type_)
    if array is not None and not array[1].startswith("array<"):
        return f"{native_of(Column(column.name, array[1]))}[]"
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if _TEXT.fullmatch(type_):
        return "text"
    decimal = _DECIMAL.fullmatch(type_)
    if decimal is not None:
        return f"numeric({decimal[1]},{decimal[2]})"
    fix = "Cast it to a type." if type_ == "void" else f'Write it as text: to_json("{column.name}").'
    raise DeclarationError(f"column {column.name} is {column.type}, which has no type in PostgreSQL", fix=fix)


def spark_type(base: str, modifier: int) -> str:
    """The Spark type of a catalog type and its modifier. What Spark does not know is a string."""
    if base == "numeric":
        if modifier < 4:
            return UNBOUNDED
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        return f"decimal({precision},{scale})" if scale <= precision <= _WIDEST else UNBOUNDED
    return _BACK.get(base, "string")


def table_column(name: str, native: str, base: str, modifier: int, array: bool) -> TableColumn:
    inner = spark_type(base, modifier)
    return TableColumn(name, f"array<{inner}>" if array else inner, native, base, array)
